// The engine for the page: the simulator as WebAssembly in a worker. Nothing here draws.
//
// A worker answers one thing at a time, but a run goes in slices, between which it explains rows and hears that the run is
// to be cancelled. A worker that panicked, ran out of memory or does not answer is ended, and the next call starts another.

import type { Answer, Ask } from './messages';

export type Column = Float64Array | Int32Array | Uint32Array | Uint8Array | BigInt64Array | string[];

/** Columns of equal length. A number that is missing is NaN; codes have their words in `labels`. */
export interface Table {
  columns: Record<string, Column>;
  units: Record<string, string>;
  labels: Record<string, string[]>;
  rows: number;
}

/** What is wrong with a scenario; `path` is empty for the whole of it. */
export interface Problem {
  path: string;
  message: string;
  fix?: string;
  line?: number;
  column?: number;
}

export interface Outcome {
  tables: Record<string, Table>;
  flows: FlowSummary[];
  links: LinkSummary[];
  events: number;
  wall_ms: number;
  /** Bytes of all columns and their CRC-32: `tailback.explorer.table_hash` of the same run gives the same. */
  hash: string;
  /** What was run, in normal form, with what was recorded. */
  scenario: object;
  toml: string;
  /** The same in the engine's own form, with nothing left open: routes, rates, limits in bytes. */
  engine: object;
  /** What is allowed but probably not meant. */
  warnings: string[];
}

/** NaN where a run gives no number. */
export interface FlowSummary {
  name: string;
  kind: string;
  cc?: string;
  goodput_mbps: number;
  delay_p50_ms: number;
  delay_p95_ms: number;
  /** What the delays are: one way of packets, or round trips of echoes or of the sender's samples. */
  delay_of: 'one-way' | 'round-trip' | 'unknown';
  loss: number;
  mos?: number;
  page_load_ms?: number;
  completion_ms?: number;
  retransmissions: number;
  timeouts: number;
}

export interface LinkSummary {
  name: string;
  utilisation: number;
  queue_p50_ms: number;
  queue_p95_ms: number;
  drops: number;
  marks: number;
  jain?: number;
}

export interface Card {
  name: string;
  title: string;
  law?: string;
  source?: string;
  parameters?: object;
}

export interface Catalogue {
  algorithms: Card[];
  queues: Card[];
  applications: Card[];
  stacks: Card[];
  media: Card[];
}

/** What a run will come to: full packets at most, rows, and seconds by how long its beginning took. */
export interface Expected {
  packets: number;
  rows: number;
  seconds: number;
}

export interface RunOptions {
  seed?: number;
  /** Record what pictures need and nothing else; on unless said otherwise. Off, what the scenario says. */
  pictures?: boolean;
  /** What turns out to come to more is ended. */
  most?: { seconds: number; rows: number };
  onProgress?: (time_s: number, until_s: number, partial?: Record<string, Table>) => void;
  /** What has been polled comes with the progress after this long: copying it takes time. */
  pollsAfterMs?: number;
  signal?: AbortSignal;
}

export interface Why {
  facts: Record<string, string | number>;
  formula?: string;
  source?: string;
}

/** A scenario that cannot be run. */
export class Refused extends Error {
  constructor(readonly problems: Problem[]) {
    super(problems.map((it) => [it.path, it.message].filter(Boolean).join(': ')).join('\n'));
    this.name = 'Refused';
  }
}

/** A run that would come to more than it may. */
export class TooLarge extends Error {
  constructor(readonly expected: Expected) {
    super(`The run would take about ${Math.round(expected.seconds)} s.`);
    this.name = 'TooLarge';
  }
}

/** After a cancel a worker that has not answered for so long is ended. */
const PATIENCE_MS = 1500;

/** A message before it has a number. */
type Asked = Ask extends infer Each ? (Each extends Ask ? Omit<Each, 'id'> : never) : never;

interface Pending {
  resolve: (value: never) => void;
  reject: (reason: unknown) => void;
  onProgress?: RunOptions['onProgress'];
}

export class Engine {
  #worker?: Worker;
  #pending = new Map<number, Pending>();
  #next = 1;
  #last?: Outcome;
  #restarts = 0;

  /** How often a worker had to be started again. */
  get restarts(): number {
    return this.#restarts;
  }

  /** The module is loaded. */
  async ready(): Promise<void> {
    await this.#ask({ do: 'ready' });
  }

  normal(toml: string): Promise<{ json: object; toml: string }> {
    return this.#ask({ do: 'normal', toml });
  }

  fromJson(json: object): Promise<string> {
    return this.#ask({ do: 'fromJson', json: JSON.stringify(json) });
  }

  /** `{parts, presets, json_schema}`: every field with its meaning, and the JSON Schema of a scenario. */
  schema(): Promise<object> {
    return this.#ask({ do: 'schema' });
  }

  catalogue(): Promise<Catalogue> {
    return this.#ask({ do: 'catalogue' });
  }

  /** Rejects with `Refused` (its `problems`), `TooLarge`, an `AbortError`, or an Error in words. */
  async run(toml: string, options: RunOptions = {}): Promise<Outcome> {
    const { signal, onProgress, pictures = true, seed, most, pollsAfterMs } = options;
    signal?.throwIfAborted();
    const id = this.#next;
    const polls = onProgress !== undefined;
    const ran = this.#ask<Outcome>({ do: 'run', toml, pictures, polls, seed, most, pollsAfterMs }, onProgress);
    const cancel = () => {
      this.#worker?.postMessage({ id, do: 'cancel' } satisfies Ask);
      setTimeout(() => this.#pending.has(id) && this.#end('The run did not stop, so its worker was ended.'), PATIENCE_MS);
    };
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      const outcome = await ran;
      signal?.throwIfAborted();
      this.#last = outcome;
      return outcome;
    } catch (error) {
      // A run that was called off is called off, however its worker ended.
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** A packet capture in the form of a run. Rejects with an Error that says why a file is none. */
  capture(bytes: Uint8Array, name: string): Promise<Outcome> {
    return this.#ask({ do: 'capture', bytes, name });
  }

  /** Take an opened result for the last run: `why` then explains its rows. */
  adopt(outcome: Outcome): void {
    this.#last = outcome;
  }

  /** Why a row of the last run is as it is. */
  async why(_run: undefined, where: { table: 'queue' | 'congestion'; row: number }): Promise<Why> {
    if (this.#last === undefined) throw new Error('Nothing has been run yet.');
    const { tables, engine } = this.#last;
    const row = rowOf(tables[where.table], where.row);
    if (row === undefined) throw new Error(`Table ${where.table} has no row ${where.row}.`);
    const poll = pollBefore(tables.polls, row);
    return this.#ask({ do: 'why', asked: JSON.stringify({ engine, table: where.table, row, poll }) });
  }

  /** End the worker; whatever it was doing is rejected. */
  close(): void {
    this.#end('The engine was closed.');
  }

  #ask<T>(ask: Asked, onProgress?: RunOptions['onProgress']): Promise<T> {
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, { resolve: resolve as Pending['resolve'], reject, onProgress });
      this.#started().postMessage({ ...ask, id } as Ask);
    });
  }

  #started(): Worker {
    if (this.#worker) return this.#worker;
    const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'tailback' });
    worker.onmessage = (event: MessageEvent<Answer>) => this.#hear(event.data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#end(`The engine could not go on: ${event.message || 'its worker could not be loaded'}.`);
    };
    this.#worker = worker;
    return worker;
  }

  #hear(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    if (!pending) return;
    if ('progress' in answer) {
      pending.onProgress?.(answer.progress.now_s, answer.progress.until_s, answer.progress.polled);
      // After the listeners have returned: a page that draws slowly gets no more than it draws.
      setTimeout(() => this.#worker?.postMessage({ id: answer.id, do: 'heard' } satisfies Ask));
      return;
    }
    this.#pending.delete(answer.id);
    if ('value' in answer) pending.resolve(answer.value as never);
    else if ('problems' in answer) pending.reject(new Refused(answer.problems));
    else if ('large' in answer) pending.reject(new TooLarge(answer.large));
    else if ('cancelled' in answer) pending.reject(new DOMException('The run was cancelled.', 'AbortError'));
    else {
      pending.reject(new Error(answer.fault));
      // A module that panicked must not be used again.
      if (answer.isBroken) this.#end('The engine was started again after a fault.');
    }
  }

  #end(why: string): void {
    this.#worker?.terminate();
    if (this.#worker) this.#restarts += 1;
    this.#worker = undefined;
    const left = [...this.#pending.values()];
    this.#pending.clear();
    for (const pending of left) pending.reject(new Error(why));
  }
}

/** A row with words in place of codes; what is missing is left out. */
export function rowOf(table: Table | undefined, row: number): Record<string, string | number> | undefined {
  if (!table || row < 0 || row >= table.rows) return undefined;
  const out: Record<string, string | number> = {};
  for (const [name, column] of Object.entries(table.columns)) {
    const value = column[row];
    const words = table.labels[name];
    if (words) {
      const word = words[Number(value)];
      if (word !== undefined) out[name] = word;
    } else if (typeof value === 'string' || Number.isFinite(Number(value))) {
      out[name] = typeof value === 'bigint' ? Number(value) : (value as string | number);
    }
  }
  return out;
}

/** The flow's last poll up to a row's instant. Polls are in order of time. */
function pollBefore(polls: Table | undefined, row: Record<string, string | number>) {
  const flow = polls?.labels.flow?.indexOf(String(row.flow)) ?? -1;
  if (!polls || flow < 0) return undefined;
  const times = polls.columns.t_s as Float64Array;
  const flows = polls.columns.flow as Uint32Array;
  let [low, high] = [0, polls.rows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! <= Number(row.t_s)) low = middle + 1;
    else high = middle;
  }
  for (let at = low - 1; at >= 0; at -= 1) if (flows[at] === flow) return rowOf(polls, at);
  return undefined;
}
