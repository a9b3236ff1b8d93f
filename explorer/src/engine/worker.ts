// The worker: the WebAssembly module, and the loop that runs it in slices.

import type { Outcome, Problem, Table } from './index';
import type { Answer, Ask } from './messages';
import { withNaN } from './opened';
import init, * as wasm from './wasm/tailback_web.js';

/** A slice takes about so long: a cancel is heard, and a text checked, as soon. */
const SLICE_MS = 12;
/** The page is told how far a run is, and has its polls, as often. */
const TELL_MS = 80;
const FEWEST_EVENTS = 2_000;

let panic = '';
Object.assign(globalThis, { tailbackPanicked: (text: string) => (panic = text) });

let loaded: Promise<unknown> | undefined;
const load = () => (loaded ??= init());

/** Full packets a second, from the runs so far; at first what a slow machine does. */
let speed = 250_000;
let eventsASlice = 40_000;
const cancelled = new Set<number>();
/** Runs wait for one another. */
let running: Promise<void> = Promise.resolve();

const say = (answer: Answer, transfer: Transferable[] = []) => self.postMessage(answer, { transfer });

self.onmessage = ({ data }: MessageEvent<Ask>) => {
  if (data.do === 'cancel') cancelled.add(data.id);
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
  const text = panic || (error instanceof Error ? error.message : String(error));
  panic = '';
  if (/memory|alloc|out of bounds|capacity overflow/i.test(text)) {
    const fault = 'The run needs more memory than the browser gives a tab. Make it shorter, or record less.';
    return { id, fault, isBroken: true };
  }
  const isTrap = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
  const fault = isTrap
    ? `The engine stopped in a fault of its own: ${text}. Please report it with the scenario and its seed.`
    : `The engine could not be loaded: ${text}.`;
  if (!isTrap) loaded = undefined;
  return { id, fault, isBroken: isTrap };
}

function quick(ask: Ask): unknown {
  switch (ask.do) {
    case 'ready':
      return true;
    case 'check':
      return JSON.parse(wasm.check(ask.toml));
    case 'normal':
      return JSON.parse(wasm.normal(ask.toml));
    case 'fromJson':
      return wasm.fromJson(ask.json);
    case 'estimate': {
      const [packets, rows] = wasm.expected(ask.toml, true) as unknown as [number, number];
      return { packets, rows, seconds: packets / speed };
    }
    case 'schema':
      return JSON.parse(wasm.schema());
    case 'catalogue':
      return catalogue();
    case 'why': {
      const found = JSON.parse(wasm.why(ask.asked)) as { facts: [string, string | number][]; formula: string | null };
      return { ...found, facts: Object.fromEntries(found.facts), formula: found.formula ?? undefined };
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
  const began = performance.now();
  if (isCancelled(ask.id)) return undefined;
  const run = new wasm.Run(ask.toml, ask.seed, ask.pictures);
  let isFinished = false;
  try {
    let told = performance.now();
    for (;;) {
      const before = performance.now();
      const isOver = run.advance(eventsASlice);
      const now = performance.now();
      if (isOver) break;
      // Half the way towards the slice that would take its time.
      const wanted = (eventsASlice * SLICE_MS) / Math.max(now - before, 0.1);
      eventsASlice = Math.max(FEWEST_EVENTS, Math.round((eventsASlice + Math.min(wanted, 8 * eventsASlice)) / 2));
      if (now - told >= TELL_MS) {
        told = now;
        const polled = ask.polls ? (run.polled() as Record<string, Table>) : undefined;
        say({ id: ask.id, progress: { now_s: run.nowS, until_s: run.untilS, polled } }, buffers(polled));
      }
      await breathe();
      if (isCancelled(ask.id)) return undefined;
    }
    isFinished = true;
    const outcome = finished(run.finish() as { told: string; tables: Record<string, Table> }, began);
    const packets = outcome.tables.engine?.columns.packets?.[0];
    // About two packets in three carry data.
    if (Number(packets) > 20_000) speed = (Number(packets) * 0.6 * 1e3) / outcome.wall_ms;
    return outcome;
  } finally {
    if (!isFinished && !panic) run.free();
  }
}

function isCancelled(id: number): boolean {
  if (!cancelled.delete(id)) return false;
  say({ id, cancelled: true });
  return true;
}

function finished({ told, tables }: { told: string; tables: Record<string, Table> }, began: number): Outcome {
  const rest = JSON.parse(told) as Omit<Outcome, 'tables' | 'wall_ms'>;
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
