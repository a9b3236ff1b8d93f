// What the page knows. A scenario's text is the state: whatever draws or edits it reads and writes that text.

import { batch, computed, effect, signal } from '@preact/signals';
import { read, shorter, edit as edited, durationOf, type Document } from './document';
import { Engine, Refused, TooLarge, type Catalogue, type Outcome, type Problem, type Table } from './engine';
import { opened, type OpenedResult } from './engine/opened';
import { decode, encode } from './fragment';
import start from './start.toml?raw';

export const engine = new Engine();
/** The module is fetched and compiled while the page is laid out; the first run reports a failure. */
const loaded = engine.ready().catch(() => undefined);

export const toml = signal(start);
let understood: Document = read(start);
/** The text's tables; what was last understood, while the text in the editor is not TOML. */
export const scenario = computed((): Document => {
  try {
    understood = read(toml.value);
  } catch {
    // The engine says where and why.
  }
  return understood;
});
export const problems = signal<Problem[]>([]);
export const outcome = signal<Outcome | undefined>(undefined);
/** The text that the outcome is of: while another one runs, not the one in the editor. */
export const ran = signal<string | undefined>(undefined);

/** Nothing has been changed yet. */
export const isUntouched = computed(() => toml.value === start);

/** A result of another run, read from a folder: it is shown until something is changed. */
export const stored = signal<OpenedResult | undefined>(undefined);

export interface Pinned {
  name: string;
  outcome: Outcome;
  toml: string;
  /** The title of the tour's step that it is of: it goes with the step. */
  step?: string;
}
export const pins = signal<Pinned[]>([]);

export type Status =
  | { is: 'loading' }
  | { is: 'ready' }
  | { is: 'running'; share: number; partial?: Record<string, Table> }
  | { is: 'large'; packets: number; rows: number; seconds: number; shorter: string }
  | { is: 'stopped' }
  | { is: 'failed'; why: string };
export const status = signal<Status>({ is: 'loading' });

/** What the page has to say once: a broken link, a file that could not be read. */
export const notice = signal<string | undefined>(undefined);
/** What can be done once, said in the same place. */
export const offer = signal<{ says: string; label: string; act: () => void } | undefined>(undefined);
/** A plot's height is that of this run; pinned ones may leave it. */
export const isOwnScale = signal(false);
export const zoom = signal<[number, number] | undefined>(undefined);
export const cursor = signal<number | undefined>(undefined);
export const catalogue = signal<Catalogue | undefined>(undefined);
/** `{parts, presets, json_schema}` as the schema states them. */
export interface Everything {
  presets: {
    name: string;
    title: string;
    source: string;
    reported: string;
    options: { name: string; default: string | number; doc: string }[];
  }[];
  json_schema: object;
}
export const everything = signal<Everything | undefined>(undefined);
export const tour = signal<{ id: string; step: number } | undefined>(undefined);
export const chosen = signal<{ table: 'queue' | 'congestion'; row: number } | undefined>(undefined);

export const duration = computed(() =>
  outcome.value ? (outcome.value.engine as { duration_ps: number }).duration_ps / 1e12 : durationOf(scenario.value),
);

// --- History: nothing that was typed or drawn is lost

const past: string[] = [];
const future: string[] = [];
const MOST_KEPT = 200;
let lastChange = '';
let lastAt = 0;

/** Replace the text. Changes of one kind that follow each other at once, as a slider's do, are one step back. */
export function change(text: string, kind = 'text'): void {
  if (text === toml.peek()) return;
  const now = performance.now();
  if (kind !== lastChange || now - lastAt > 800 || past.length === 0) {
    past.push(toml.peek());
    if (past.length > MOST_KEPT) past.shift();
  }
  [lastChange, lastAt] = [kind, now];
  future.length = 0;
  stored.value = undefined;
  toml.value = text;
}

export function edit(kind: string, how: (document: Document) => void): void {
  try {
    change(edited(toml.peek(), how), kind);
  } catch {
    notice.value = 'The text in the editor is not a scenario at the moment. Fix it first, or take the last step back.';
  }
}

export function back(): void {
  const text = past.pop();
  if (text === undefined) return;
  future.push(toml.peek());
  lastChange = '';
  stored.value = undefined;
  toml.value = text;
}

export function forth(): void {
  const text = future.pop();
  if (text === undefined) return;
  past.push(toml.peek());
  lastChange = '';
  stored.value = undefined;
  toml.value = text;
}

/** The history outlives a reload, for the tab that it belongs to. */
const KEPT = 'tailback-history';

function keepHistory(): void {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ at: location.hash, now: toml.peek(), past, future }));
  } catch {
    // Storage can be forbidden or full; then a reload forgets.
  }
}

/** The first text of this page. What the page begins with is no step of the reader's. */
function arrive(text: string): void {
  past.length = future.length = 0;
  toml.value = text;
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null') as {
      at: string;
      now: string;
      past: string[];
      future: string[];
    } | null;
    if (kept?.at !== location.hash) return;
    past.push(...kept.past);
    future.push(...kept.future);
    toml.value = kept.now;
  } catch {
    // Storage is not available.
  }
}

/** Another scenario: what was zoomed into or asked about belongs to the one before. */
export function open(text: string, kind = 'open'): void {
  batch(() => {
    change(text, `${kind} ${Math.random()}`);
    zoom.value = undefined;
    chosen.value = undefined;
  });
}

// --- Running: the latest wins

/** A run that is nearly over is let finish, so that something is drawn while a slider moves, */
const LET_FINISH_MS = 250;
/** and on a slow machine every other one. */
const LET_FINISH_NEXT_MS = 2500;
/** Longer than this is asked about first. */
const LONG_S = 20;
const MANY_ROWS = 6_000_000;

interface Run {
  is: 'running';
  abort: AbortController;
  began: number;
  /** What follows it: the text may have changed since it began. */
  then: 'rest' | 'again';
  /** Why it was aborted, if it was. */
  ended?: 'cut short' | 'stopped';
}

/** What the worker does. Until the module is there nothing runs; the latest text then does. */
type Work = { is: 'idle' } | { is: 'loading' } | Run;
const work = signal<Work>({ is: 'idle' });
/** How long a run may go on after the text has changed. */
let patience = LET_FINISH_MS;
/** The text that may run however large it is. */
let allowed = '';

/** Run what is too large all the same. */
export function runAnyway(): void {
  allowed = toml.peek();
  void go();
}

/** Run what is offered in place of what is too large. It was estimated already. */
export function runShorter(duration: string): void {
  edit('duration', (document) => (document['duration'] = duration));
  allowed = toml.peek();
}

export function stop(): void {
  const run = work.peek();
  if (run.is !== 'running') return;
  run.then = 'rest';
  run.ended = 'stopped';
  run.abort.abort();
}

/** Run the latest text: at once, or after the run under way, which is cut short if it takes long. */
async function go(): Promise<void> {
  const now = work.peek();
  if (now.is === 'running') {
    now.then = 'again';
    cutShort(now);
  }
  if (now.is !== 'idle') return;
  work.value = { is: 'loading' };
  await loaded;
  let run: Run;
  do {
    run = { is: 'running', abort: new AbortController(), began: performance.now(), then: 'rest' };
    work.value = run;
    await once(toml.peek(), run);
  } while (run.then === 'again');
  work.value = { is: 'idle' };
}

function cutShort(run: Run): void {
  if (run.then === 'rest' || run.abort.signal.aborted || performance.now() - run.began < patience) return;
  patience = LET_FINISH_NEXT_MS;
  run.ended = 'cut short';
  run.abort.abort();
}

async function once(text: string, run: Run): Promise<void> {
  const { signal } = run.abort;
  try {
    const result = await engine.run(text, {
      signal,
      ...(allowed === text ? {} : { most: { seconds: LONG_S, rows: MANY_ROWS } }),
      // What takes no longer than a glance is drawn when it is whole.
      pollsAfterMs: LET_FINISH_MS,
      onProgress: (now, until, partial) => {
        cutShort(run);
        if (signal.aborted) return;
        problems.value = [];
        status.value = { is: 'running', share: now / until, ...(partial ? { partial } : {}) };
      },
    });
    patience = LET_FINISH_MS;
    batch(() => {
      problems.value = [];
      outcome.value = result;
      ran.value = text;
      // A row belongs to its run: after another it would be another event.
      chosen.value = undefined;
      status.value = { is: 'ready' };
    });
  } catch (error) {
    if (signal.aborted) status.value = { is: run.ended === 'stopped' ? 'stopped' : 'ready' };
    else if (error instanceof Refused) {
      problems.value = error.problems;
      status.value = { is: 'ready' };
    } else if (error instanceof TooLarge) {
      const { expected } = error;
      // About five seconds of it.
      const share = Math.min(5 / expected.seconds, MANY_ROWS / 4 / expected.rows);
      problems.value = [];
      status.value = { is: 'large', ...expected, shorter: shorter(read(text), share) };
    } else failed(error);
  }
}

export function failed(error: unknown): void {
  status.value = { is: 'failed', why: error instanceof Error ? error.message : String(error) };
}

export function again(): void {
  void go();
}

// --- The address

let addressAt = 0;

export async function address(): Promise<string> {
  const fragment = await encode({
    toml: toml.peek(),
    ...(zoom.peek() ? { zoom: zoom.peek()! } : {}),
    ...(tour.peek() ? { tour: tour.peek()!.id, step: tour.peek()!.step } : {}),
  });
  return `${location.href.replace(/#.*$/, '')}#${fragment}`;
}

/** What the address says; false if it says nothing. */
export async function fromAddress(isFirst = false): Promise<boolean> {
  try {
    const shared = await decode(location.hash);
    if (!shared) return false;
    batch(() => {
      if (isFirst) arrive(shared.toml);
      else open(shared.toml);
      zoom.value = shared.zoom;
      tour.value = shared.tour === undefined ? undefined : { id: shared.tour, step: shared.step ?? 0 };
    });
    return true;
  } catch (error) {
    notice.value = `${(error as Error).message} ${isUntouched.peek() ? 'What you see is the example.' : 'What you had is still here.'}`;
    return false;
  }
}

/** What `tailback explore FILE` was given, if its server sent this page. */
async function fromServer(): Promise<void> {
  const found = await opened();
  if (!found) return;
  arrive(found.toml);
  if (found.kind === 'result') adopt(found);
}

function adopt(found: OpenedResult): void {
  batch(() => {
    engine.adopt(found.outcome);
    outcome.value = found.outcome;
    ran.value = found.toml;
    stored.value = found;
    problems.value = [];
    status.value = { is: 'ready' };
  });
}

/** Show a result in place of what is shown; the run under way is ended first. */
export async function show(found: OpenedResult): Promise<void> {
  stop();
  await until(() => work.value.is === 'idle' && status.value.is !== 'running', MENUS_MS);
  batch(() => {
    open(found.toml);
    tour.value = undefined;
    adopt(found);
  });
}

/** What menus list is not asked for before the first run is drawn, or so much time has passed. */
const MENUS_MS = 1000;

const until = (holds: () => boolean, most: number): Promise<void> =>
  new Promise((done) => {
    setTimeout(done, most);
    effect(() => void (holds() && done()));
  });

export async function begin(): Promise<void> {
  const isShared = await fromAddress(true);
  window.addEventListener('pagehide', keepHistory);
  window.addEventListener('hashchange', () => void fromAddress());
  if (!isShared) await fromServer().catch((error: Error) => (notice.value = error.message));
  effect(() => {
    void toml.value;
    // A stored result is shown as it is; it is run again when something is changed.
    if (stored.peek() === undefined) void go();
  });
  effect(() => {
    void [toml.value, zoom.value, tour.value];
    clearTimeout(addressAt);
    addressAt = window.setTimeout(() => {
      void address()
        .then((to) => history.replaceState(null, '', to))
        .catch(() => undefined);
    }, 600);
  });
  await until(() => !['loading', 'running'].includes(status.value.is), MENUS_MS);
  try {
    [catalogue.value, everything.value] = await Promise.all([
      engine.catalogue(),
      engine.schema() as Promise<Everything>,
    ]);
  } catch (error) {
    failed(error);
  }
}
