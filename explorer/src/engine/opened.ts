// What `tailback explore FILE` opened, read from the server that serves this page; on a static host nothing was.

import type { Column, FlowSummary, LinkSummary, Outcome, Table } from './index';

export interface OpenedScenario {
  kind: 'scenario';
  name: string;
  toml: string;
}

/** A stored result: of the simulator, of a live kernel, or captured. */
export interface OpenedResult {
  kind: 'result';
  name: string;
  toml: string;
  /** What made it: "simulated …", "live …", "captured …". */
  made: string;
  /** In the form of a run in the page; of its tables those that `load` brought. */
  outcome: Outcome;
  /** Rows of every table there is. */
  rows: Record<string, number>;
  /** Bring tables, of those that there are. */
  load(names: string[]): Promise<void>;
}

/** Tables that every picture reads. */
const FIRST = ['flows', 'links', 'congestion', 'polls', 'queue_polls', 'queue', 'requests', 'echoes', 'packets'];
/** A longer one is brought only when it is asked for. */
const MANY_ROWS = 400_000;

interface Described extends Omit<Outcome, 'tables' | 'wall_ms'> {
  kind: 'scenario' | 'result';
  name: string;
  made: string;
  tables: Record<string, number>;
}

/** What the server's command was given; none without such a server. Throws an Error in words. */
export async function opened(): Promise<OpenedScenario | OpenedResult | undefined> {
  const place = document.querySelector<HTMLMetaElement>('meta[name="tailback-opened"]')?.content;
  if (!place) return undefined;
  const described = await fetched<Described>(place);
  if (described.kind === 'scenario') return { kind: 'scenario', name: described.name, toml: described.toml };
  const { kind, name, made, tables: rows, ...rest } = described;
  const [flows, links] = [described.flows.map(withNaN<FlowSummary>), described.links.map(withNaN<LinkSummary>)];
  const tables: Record<string, Table> = {};
  const outcome: Outcome = { ...rest, flows, links, tables, wall_ms: NaN };
  const load = async (names: string[]) => {
    const wanted = names.filter((it) => it in rows && !(it in tables));
    await Promise.all(wanted.map(async (it) => (tables[it] = typed(await fetched<Plain>(`opened/${it}.json`)))));
  };
  await load(FIRST.filter((it) => (rows[it] ?? 0) <= MANY_ROWS));
  return { kind, name, toml: described.toml, made, outcome, rows, load };
}

async function fetched<T>(place: string): Promise<T> {
  const answer = await fetch(place);
  if (!answer.ok) throw new Error(`${place} could not be read: ${(await answer.text()).trim() || answer.statusText}`);
  return (await answer.json()) as T;
}

interface Plain {
  rows: number;
  units: Record<string, string>;
  labels: Record<string, string[]>;
  types: Record<string, string>;
  columns: Record<string, (number | boolean | string | null)[]>;
}

function typed({ rows, units, labels, types, columns }: Plain): Table {
  const column = (name: string, values: Plain['columns'][string]): Column => {
    const numbers = values as (number | null)[];
    switch (types[name]) {
      case 'uint32':
      case 'uint16':
        return Uint32Array.from(numbers, Number);
      case 'uint8':
      case 'bool':
        return Uint8Array.from(numbers, Number);
      default:
        return typeof values[0] === 'string'
          ? (values as string[])
          : Float64Array.from(numbers, (value) => (value === null ? NaN : Number(value)));
    }
  };
  const entries = Object.entries(columns).map(([name, values]) => [name, column(name, values)] as const);
  return { rows, units, labels, columns: Object.fromEntries(entries) };
}

const OPTIONAL = ['cc', 'mos', 'page_load_ms', 'completion_ms', 'jain'];

/** A summary's numbers that a run does not give: NaN, or left out where they may be. */
export function withNaN<T>(row: T): T {
  const given = Object.entries(row as object).filter(([key, value]) => value !== null || !OPTIONAL.includes(key));
  return Object.fromEntries(given.map(([key, value]) => [key, value ?? NaN])) as T;
}
