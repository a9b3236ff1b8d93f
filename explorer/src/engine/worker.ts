// The worker: the WebAssembly module, and the loop that runs it in slices.

import type { Outcome, Problem, Table } from './index';
import type { Answer, Ask } from './messages';
import { withNaN } from './opened';
import { LONGEST_TRIAL_MS, TRIAL_MS, expectedSeconds, type Moment } from './trial';
import init, * as wasm from './wasm/tailback_web.js';

/** A slice takes about so long: a cancel is heard, and a row explained, as soon. */
const SLICE_MS = 12;
/** How often the page learns how far a run is, and gets its polls. */
const REPORT_MS = 80;
const FEWEST_EVENTS = 2_000;

let panic = '';
Object.assign(globalThis, { tailbackPanicked: (text: string) => (panic = text) });

let loaded: Promise<unknown> | undefined;
const load = () => (loaded ??= init());

let eventsASlice = 40_000;
const cancelled = new Set<number>();
/** A cancel of an earlier one comes too late. */
let finishedLast = 0;
/** The run whose last progress the page has dealt with. */
let heard = 0;
/** Runs wait for one another. */
let running: Promise<void> = Promise.resolve();

const say = (answer: Answer, transfer: Transferable[] = []) => self.postMessage(answer, { transfer });

self.onmessage = ({ data }: MessageEvent<Ask>) => {
  if (data.do === 'cancel') data.id > finishedLast && cancelled.add(data.id);
  else if (data.do === 'heard') heard = data.id;
  else if (data.do === 'run') running = running.then(() => answer(data, () => run(data)));
  else void answer(data, () => quick(data));
};

async function answer(ask: Ask, work: () => unknown): Promise<void> {
  try {
    await load();
    const value = await work();
    if (value !== undefined) say({ id: ask.id, value }, buffers(value));
  } catch (error) {
    say(failure(ask.id, error));
  }
}

function failure(id: number, error: unknown): Answer {
  // What the module throws itself is JSON.
  if (typeof error === 'string') {
    const said = JSON.parse(error) as { problems?: Problem[]; fault?: string };
    return said.problems ? { id, problems: said.problems } : { id, fault: said.fault ?? error, isBroken: false };
  }
  const words = error instanceof Error ? error.message : String(error);
  if (!isTrap(error)) {
    loaded = undefined;
    return { id, fault: `The engine could not be loaded: ${words}.`, isBroken: false };
  }
  // A fault of its own leaves a text; the end of memory has no memory to say so.
  const fault =
    panic || error instanceof RangeError
      ? `The engine stopped in a fault of its own: ${panic || words}. Please report it with the scenario and its seed.`
      : 'The run needs more memory than the browser gives a tab. Make it shorter, or record less.';
  panic = '';
  return { id, fault, isBroken: true };
}

const isTrap = (error: unknown) => error instanceof WebAssembly.RuntimeError || error instanceof RangeError;

function quick(ask: Ask): unknown {
  switch (ask.do) {
    case 'ready':
      return true;
    case 'normal':
      return JSON.parse(wasm.normal(ask.toml));
    case 'fromJson':
      return wasm.fromJson(ask.json);
    case 'schema':
      return JSON.parse(wasm.schema());
    case 'catalogue':
      return catalogue();
    case 'why': {
      const found = JSON.parse(wasm.why(ask.asked)) as { facts: [string, string | number][]; formula: string | null };
      return { ...found, facts: Object.fromEntries(found.facts), formula: found.formula ?? undefined };
    }
    case 'capture': {
      const began = performance.now();
      return finished(wasm.capture(ask.bytes, ask.name) as { summary: string; tables: Record<string, Table> }, began);
    }
    default:
      throw new Error(`the worker does not know ${ask.do}`);
  }
}

function catalogue(): unknown {
  const { apps, ...all } = JSON.parse(wasm.catalogue()) as Record<string, Record<string, unknown>[]>;
  const cards = (rows: Record<string, unknown>[] = []) =>
    rows.map(({ params, fields, ...card }) => ({ ...card, parameters: params ?? fields }));
  return {
    algorithms: cards(all.algorithms),
    queues: cards(all.queues),
    applications: cards(apps),
    stacks: cards(all.stacks),
    media: cards(all.media),
  };
}

/** Let messages in. A timer would be held back to 4 ms. */
const turn = new MessageChannel();
const breathe = () =>
  new Promise<void>((resolve) => {
    turn.port1.onmessage = () => resolve();
    turn.port2.postMessage(0);
  });

async function run(ask: Extract<Ask, { do: 'run' }>): Promise<Outcome | undefined> {
  // Who is dragged along by a slider asks for many runs and wants the last.
  await breathe();
  if (isCancelled(ask.id)) return undefined;
  const began = performance.now();
  heard = ask.id;
  const run = new wasm.Run(ask.toml, ask.seed, ask.pictures);
  let isOurs = true;
  try {
    const [packets, rows] = run.expected as unknown as [number, number];
    const { seconds: most, rows: mostRows } = ask.most ?? { seconds: Infinity, rows: Infinity };
    const tried: Moment[] = [];
    let isTried = !ask.most;
    let reported = performance.now();
    for (;;) {
      const before = performance.now();
      const isOver = run.advance(eventsASlice);
      const now = performance.now();
      if (isOver) break;
      if (!isTried) {
        const ms = now - began;
        tried.push({ ms, simulated_s: run.nowS });
        const seconds = expectedSeconds(tried, run.untilS);
        isTried = ms >= TRIAL_MS && seconds <= most && rows <= mostRows;
        if (!isTried && (ms >= LONGEST_TRIAL_MS || rows > mostRows)) {
          say({ id: ask.id, large: { packets, rows, seconds } });
          return undefined;
        }
      }
      // Half the way towards the slice that would take its time.
      const wanted = (eventsASlice * SLICE_MS) / Math.max(now - before, 0.1);
      eventsASlice = Math.max(FEWEST_EVENTS, Math.round((eventsASlice + Math.min(wanted, 8 * eventsASlice)) / 2));
      if (now - reported >= REPORT_MS && heard === ask.id) {
        reported = now;
        heard = 0;
        const isWanted = ask.polls && isTried && now - began >= (ask.pollsAfterMs ?? 0);
        const polled = isWanted ? (run.polled() as Record<string, Table>) : undefined;
        say({ id: ask.id, progress: { now_s: run.nowS, until_s: run.untilS, polled } }, buffers(polled));
      }
      await breathe();
      if (isCancelled(ask.id)) return undefined;
    }
    isOurs = false;
    return finished(run.finish() as { summary: string; tables: Record<string, Table> }, began);
  } catch (error) {
    // What stopped in the middle cannot be taken apart.
    isOurs &&= !isTrap(error);
    throw error;
  } finally {
    finishedLast = ask.id;
    if (isOurs) run.free();
  }
}

function isCancelled(id: number): boolean {
  if (!cancelled.delete(id)) return false;
  say({ id, cancelled: true });
  return true;
}

function finished({ summary, tables }: { summary: string; tables: Record<string, Table> }, began: number): Outcome {
  const rest = JSON.parse(summary) as Omit<Outcome, 'tables' | 'wall_ms'>;
  const [flows, links] = [rest.flows.map(withNaN), rest.links.map(withNaN)];
  return { ...rest, flows, links, tables, wall_ms: performance.now() - began };
}

/** The memory of all columns, to be handed over and not copied. */
function buffers(value: unknown): Transferable[] {
  const tables = (value as { tables?: Record<string, Table> } | undefined)?.tables ?? value;
  if (typeof tables !== 'object' || tables === null) return [];
  return Object.values(tables as Record<string, Table>)
    .flatMap((table) => Object.values(table?.columns ?? {}))
    .filter((column) => ArrayBuffer.isView(column))
    .map((column) => (column as Float64Array).buffer);
}
