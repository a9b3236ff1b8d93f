// From the tables of a run to lines and points, in the units that people read.

import { onlyAsks } from './applications';
import type { Outcome, Table } from './engine';

export interface Line {
  /** What it is of, the same in every run: for colours and for comparing. */
  key: string;
  label: string;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  /** Of a link: how much waits there beside the others. */
  rank?: number;
  /** A level rather than something measured. */
  level?: boolean;
  /** Values that belong to instants, not to stretches between them. */
  points?: boolean;
}

/** Something that happened, which can be asked about. */
export interface Mark {
  t: number;
  y: number;
  table: 'queue' | 'congestion';
  row: number;
  what: string;
  key: string;
}

const SIGNS: Record<string, [sign: string, one: string, more: string]> = {
  drop: ['×', 'drop', 'drops'],
  mark: ['△', 'mark', 'marks'],
  timeout: ['□', 'timeout', 'timeouts'],
  'recovery-entered': ['○', 'reduction', 'reductions'],
};

/** "× 12 drops, △ 3 marks": what the signs in the plot are. */
export function signs(marks: readonly Mark[]): string {
  const counts = new Map<string, number>();
  for (const mark of marks) {
    const what = SIGNS[mark.what] ? mark.what : 'recovery-entered';
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  return [...counts]
    .map(([what, count]) => {
      const [sign, one, more] = SIGNS[what]!;
      return `${sign} ${count} ${count === 1 ? one : more}`;
    })
    .join(', ');
}

export interface Panel {
  id: 'queue' | 'window' | 'rate' | 'felt' | 'rtt';
  title: string;
  unit: string;
  lines: Line[];
  marks: Mark[];
}

/** What the page reads of the resolved scenario. */
export interface Resolved {
  duration_ps: number;
  links: {
    name: string;
    rate_bps: number | null;
    framing?: unknown;
    delay_ps: number;
    schedule?: { at_ps: number; rate_bps?: number | null }[];
    queue: { discipline: string; params: Record<string, unknown> };
  }[];
  flows: {
    name: string;
    from: string;
    to: string;
    route: string[];
    back_route: string[];
    start_ps: number;
    stop_ps: number | null;
    app: { kind: string };
    tcp: { cc: string; stack: string; mtu: number } | null;
  }[];
}

export const resolved = (outcome: Outcome): Resolved => outcome.engine as Resolved;
export const durationOf = (outcome: Outcome): number => resolved(outcome).duration_ps / 1e12;

export function numbers(table: Table, name: string): ArrayLike<number> {
  const column = table.columns[name];
  if (column === undefined || Array.isArray(column)) return [];
  return column instanceof BigInt64Array ? Float64Array.from(column, Number) : column;
}

/** What was grouped of a table whose rows will not change. */
const grouped = new WeakMap<Table, Map<string, Map<number, Uint32Array>>>();

/** The rows of a table by the number in one column, in their order. */
export function groups(table: Table | undefined, by: string): Map<number, Uint32Array> {
  if (!table) return new Map();
  const known = grouped.get(table) ?? new Map<string, Map<number, Uint32Array>>();
  const found = known.get(by) ?? group(numbers(table, by));
  grouped.set(table, known.set(by, found));
  return found;
}

function group(values: ArrayLike<number>): Map<number, Uint32Array> {
  const counts: number[] = [];
  for (let row = 0; row < values.length; row++) counts[values[row]!] = (counts[values[row]!] ?? 0) + 1;
  const out = new Map<number, Uint32Array>();
  counts.forEach((count, value) => out.set(value, new Uint32Array(count)));
  counts.fill(0);
  const rows = [...counts.keys()].map((value) => out.get(value));
  for (let row = 0; row < values.length; row++) {
    const value = values[row]!;
    rows[value]![counts[value]!++] = row;
  }
  return out;
}

export function pick(values: ArrayLike<number>, rows: ArrayLike<number>, scale = 1): Float64Array {
  const out = new Float64Array(rows.length);
  for (let at = 0; at < rows.length; at++) out[at] = values[rows[at]!]! * scale;
  return out;
}

const REDUCTIONS: Record<string, string> = {
  'recovery-entered': 'loss noticed: the window is cut',
  timeout: 'timeout: the window starts again from the bottom',
  'cwr-entered': 'mark noticed: the window is cut',
};

/** The word that a code stands for. */
export const word = (table: Table, column: string, row: number): string =>
  table.labels[column]?.[Number(table.columns[column]?.[row])] ?? '';

/** Queueing delay of each link whose queue ever held something worth showing. */
function queues(outcome: Outcome, scenario: Resolved): Panel {
  const polls = outcome.tables['queue_polls'];
  const panel: Panel = { id: 'queue', title: 'Waiting in the queue', unit: 'ms', lines: [], marks: [] };
  if (!polls) return panel;
  const t = numbers(polls, 't_s');
  const backlog = numbers(polls, 'backlog_bytes');
  const found: { line: Line; most: number; waits: ReturnType<typeof waiting>; link: number; held: boolean }[] = [];
  for (const [link, rows] of groups(polls, 'link')) {
    const spec = scenario.links[link];
    if (!spec) continue;
    const waits = waiting(outcome, link);
    const y = Float64Array.from(rows, (row) => waits(backlog[row]!, t[row]!));
    let most = 0;
    for (const value of y) most = Math.max(most, value);
    const label = spec.rate_bps === null ? `${spec.name} (at the rate it carried)` : spec.name;
    found.push({ line: { key: `link:${spec.name}`, label, x: pick(t, rows), y }, most, waits, link, held: most > 0 });
  }
  found.sort((a, b) => b.most - a.most);
  const drops = outcome.tables['queue'];
  const dropped = groups(drops, 'link');
  const shown = found.filter(
    (each, at) => at === 0 || (at < 4 && (each.most > 0.05 * found[0]!.most || dropped.has(each.link))),
  );
  for (const [rank, each] of shown.entries()) {
    panel.lines.push({ ...each.line, rank });
    const limit = scenario.links[each.link]!.queue.params['limit_bytes'];
    // At a rate that changes, a full queue is no level.
    const full = typeof limit === 'number' && !rateSteps(scenario.links[each.link]!).length ? each.waits(limit, 0) : 0;
    if (full > 0 && full < 3 * each.most) {
      panel.lines.push({
        key: `${each.line.key}:full`,
        label: `${scenario.links[each.link]!.name} is full`,
        x: [0, durationOf(outcome)],
        y: [full, full],
        level: true,
      });
    }
    if (!drops) continue;
    const when = numbers(drops, 't_s');
    const held = numbers(drops, 'backlog_bytes');
    for (const row of dropped.get(each.link) ?? []) {
      const event = word(drops, 'event', row);
      if (event !== 'drop' && event !== 'mark') continue;
      panel.marks.push({
        t: when[row]!,
        y: each.waits(held[row]!, when[row]!),
        table: 'queue',
        row,
        what: event,
        key: each.line.key,
      });
    }
  }
  return panel;
}

/** Rates of a link's schedule and when each begins, in seconds; none if its rate is constant or not its own. */
function rateSteps(spec: Resolved['links'][number]): [number, number][] {
  if (!spec.rate_bps || spec.framing) return [];
  return (spec.schedule ?? []).flatMap((step) =>
    typeof step.rate_bps === 'number' ? [[step.at_ps / 1e12, step.rate_bps] as [number, number]] : [],
  );
}

/** For how many ms a link sends a backlog (bytes) that it has at a time (s): at the rates of its schedule. */
export function waiting(outcome: Outcome, link: number): (bytes: number, at: number) => number {
  const scenario = resolved(outcome);
  const spec = scenario.links[link]!;
  const carried = spec.framing ? sentAt(outcome, link) : (spec.rate_bps ?? carriedBy(outcome, link, scenario));
  const steps = rateSteps(spec);
  if (!steps.length) return (bytes) => (carried > 0 ? (8e3 * bytes) / carried : 0);
  return (bytes, at) => {
    let [left, now, rate] = [8 * bytes, at, carried];
    for (const [when, next] of steps) {
      if (when > now && left > rate * (when - now)) {
        left -= rate * (when - now);
        now = when;
      } else if (when > now) break;
      rate = next;
    }
    // As in tailback_measures::queue::Drain, what is never sent takes an hour.
    const never = Math.max(steps.at(-1)![0], durationOf(outcome)) + 3600 - now;
    return 1e3 * (now - at + (left > 0 ? Math.min(rate > 0 ? left / rate : never, never) : 0));
  };
}

function carriedBy(outcome: Outcome, link: number, scenario: Resolved): number {
  const links = outcome.tables['links'];
  if (!links) return 0;
  return (8 * (numbers(links, 'delivered_bytes')[link] ?? 0)) / (scenario.duration_ps / 1e12);
}

/** IP bits a second of a link while it sends: what framing leaves of its rate. */
function sentAt(outcome: Outcome, link: number): number {
  const links = outcome.tables['links'];
  const busy = links ? (numbers(links, 'busy_s')[link] ?? 0) : 0;
  return links && busy > 0 ? (8 * (numbers(links, 'delivered_bytes')[link] ?? 0)) / busy : 0;
}

function windows(outcome: Outcome, scenario: Resolved): Panel[] {
  const polls = outcome.tables['polls'];
  const window: Panel = { id: 'window', title: 'Congestion window', unit: 'packets', lines: [], marks: [] };
  const rtt: Panel = { id: 'rtt', title: 'Round trip, smoothed', unit: 'ms', lines: [], marks: [] };
  if (!polls) return [window, rtt];
  const t = numbers(polls, 't_s');
  const cwnd = numbers(polls, 'cwnd');
  const srtt = numbers(polls, 'srtt_s');
  const happened = groups(outcome.tables['congestion'], 'flow');
  for (const [flow, rows] of groups(polls, 'flow')) {
    const spec = scenario.flows[flow];
    // A flow that only asks has a window that never matters: its answers come from the other end.
    if (!spec?.tcp || onlyAsks(spec.app.kind)) continue;
    const key = `flow:${spec.name}`;
    const segment = 1 / (spec.tcp.mtu - 52);
    window.lines.push({ key, label: spec.name, x: pick(t, rows), y: capped(pick(cwnd, rows, segment)) });
    const y = pick(srtt, rows, 1e3);
    for (let at = 0; at < y.length; at++) if (y[at] === 0) y[at] = NaN;
    rtt.lines.push({ key, label: spec.name, x: pick(t, rows), y });
    const congestion = outcome.tables['congestion'];
    if (!congestion) continue;
    const when = numbers(congestion, 't_s');
    const before = numbers(congestion, 'cwnd_before');
    for (const row of happened.get(flow) ?? []) {
      const kind = word(congestion, 'kind', row);
      if (REDUCTIONS[kind]) {
        window.marks.push({ t: when[row]!, y: before[row]! * segment, table: 'congestion', row, what: kind, key });
      }
    }
  }
  return [window, rtt];
}

/** A window before its first limit is "infinite" for some stacks: no line says so. */
function capped(values: Float64Array): Float64Array {
  for (let at = 0; at < values.length; at++) if (values[at]! > 1e7) values[at] = NaN;
  return values;
}

/** Received bytes in equal bins, as Mbit/s. */
function binned(
  x: ArrayLike<number>,
  total: ArrayLike<number>,
  end: number,
  bins: number,
): { x: Float64Array; y: Float64Array } {
  const width = end / bins;
  const at = new Float64Array(bins + 1).fill(NaN);
  let row = 0;
  for (let bin = 0; bin <= bins; bin++) {
    while (row < x.length && x[row]! <= bin * width + 1e-9) row++;
    at[bin] = row > 0 ? total[row - 1]! : NaN;
  }
  const first = x.length ? x[0]! : Infinity;
  const last = x.length ? x[x.length - 1]! : -Infinity;
  const out = { x: new Float64Array(bins), y: new Float64Array(bins) };
  for (let bin = 0; bin < bins; bin++) {
    out.x[bin] = (bin + 0.5) * width;
    const known = (bin + 1) * width > first && bin * width <= last;
    const before = Number.isNaN(at[bin]!) ? 0 : at[bin]!;
    out.y[bin] = known && !Number.isNaN(at[bin + 1]!) ? (8e-6 * (at[bin + 1]! - before)) / width : NaN;
  }
  return out;
}

const BINS = 150;

function rates(outcome: Outcome, scenario: Resolved): Panel {
  const panel: Panel = { id: 'rate', title: 'Throughput', unit: 'Mbit/s', lines: [], marks: [] };
  const end = durationOf(outcome);
  const polls = outcome.tables['polls'];
  const lines = new Map<number, Line>();
  if (polls) {
    const t = numbers(polls, 't_s');
    // In order or not: what a loss held back would come as a burst.
    const received = numbers(polls, 'bytes_arrived');
    for (const [flow, rows] of groups(polls, 'flow')) {
      const spec = scenario.flows[flow];
      if (!spec || onlyAsks(spec.app.kind)) continue;
      const { x, y } = binned(pick(t, rows), pick(received, rows), end, BINS);
      lines.set(flow, { key: `flow:${spec.name}`, label: spec.name, x, y });
    }
  }
  const packets = outcome.tables['packets'];
  if (packets) {
    const when = numbers(packets, 'received_s');
    const size = numbers(packets, 'bytes');
    for (const [flow, rows] of groups(packets, 'flow')) {
      const spec = scenario.flows[flow];
      if (!spec || spec.tcp) continue;
      const came = Array.from(rows)
        .filter((row) => when[row]! >= 0)
        .sort((a, b) => when[a]! - when[b]!);
      let sum = 0;
      const total = came.map((row) => (sum += size[row]!));
      const { x, y } = binned(pick(when, came), total, end, BINS);
      lines.set(flow, { key: `flow:${spec.name}`, label: spec.name, x, y });
    }
  }
  panel.lines = [...lines].sort(([a], [b]) => a - b).map(([, line]) => line);
  return panel;
}

/** Delay of calls, round trips of pings, waiting for what was asked for. */
function felt(outcome: Outcome, scenario: Resolved): Panel {
  const panel: Panel = { id: 'felt', title: 'Delay that people meet', unit: 'ms', lines: [], marks: [] };
  const packets = outcome.tables['packets'];
  if (packets) {
    const sent = numbers(packets, 'sent_s');
    const received = numbers(packets, 'received_s');
    for (const [flow, rows] of groups(packets, 'flow')) {
      const spec = scenario.flows[flow];
      if (!spec || spec.tcp) continue;
      const y = new Float64Array(rows.length);
      for (let at = 0; at < rows.length; at++) {
        const row = rows[at]!;
        y[at] = received[row]! > 0 ? 1e3 * (received[row]! - sent[row]!) : NaN;
      }
      panel.lines.push({ key: `flow:${spec.name}`, label: `${spec.name}: one way`, x: pick(sent, rows), y });
    }
  }
  for (const [name, column, what] of [
    ['echoes', 'rtt_s', 'there and back'],
    ['requests', 'response_time_s', 'answer'],
  ] as const) {
    const table = outcome.tables[name];
    if (!table) continue;
    const t = numbers(table, 't_s');
    const took = numbers(table, column);
    for (const [flow, rows] of groups(table, 'flow')) {
      const spec = scenario.flows[flow];
      if (!spec) continue;
      panel.lines.push({
        key: `flow:${spec.name}`,
        label: `${spec.name}: ${what}`,
        x: pick(t, rows),
        y: pick(took, rows, 1e3),
        points: true,
      });
    }
  }
  return panel;
}

export function panels(outcome: Outcome): Panel[] {
  const scenario = resolved(outcome);
  const [window, rtt] = windows(outcome, scenario);
  return [queues(outcome, scenario), window!, rates(outcome, scenario), felt(outcome, scenario), rtt!].filter(
    (panel) => panel.lines.length > 0,
  );
}

/** One flow's segments, as its sender sees them. */
export interface Segments {
  sent: { t: Float64Array; from: Float64Array; until: Float64Array; again: boolean[] };
  acked: { t: Float64Array; ack: Float64Array };
}

export function segments(outcome: Outcome, flow: string, begin = -Infinity, end = Infinity): Segments {
  const table = outcome.tables['segments'];
  const scenario = resolved(outcome);
  const number = scenario.flows.findIndex((each) => each.name === flow);
  const sent: { t: number; from: number; until: number; again: boolean }[] = [];
  const acked: { t: number; ack: number }[] = [];
  if (table) {
    const [t, seq, length, ack] = ['t_s', 'seq', 'length', 'ack'].map((name) => numbers(table, name)) as [
      ArrayLike<number>,
      ArrayLike<number>,
      ArrayLike<number>,
      ArrayLike<number>,
    ];
    const [whose, outgoing, receiver] = ['flow', 'outgoing', 'at_receiver'].map((name) => numbers(table, name)) as [
      ArrayLike<number>,
      ArrayLike<number>,
      ArrayLike<number>,
    ];
    let highest = -1;
    for (let row = 0; row < table.rows; row++) {
      if (whose[row] !== number || receiver[row] || t[row]! < begin || t[row]! > end) continue;
      if (outgoing[row] && length[row]! > 0) {
        const until = seq[row]! + length[row]!;
        sent.push({ t: t[row]!, from: seq[row]!, until, again: until <= highest });
        highest = Math.max(highest, until);
      } else if (!outgoing[row]) acked.push({ t: t[row]!, ack: ack[row]! });
    }
  }
  return {
    sent: {
      t: Float64Array.from(sent, (each) => each.t),
      from: Float64Array.from(sent, (each) => each.from),
      until: Float64Array.from(sent, (each) => each.until),
      again: sent.map((each) => each.again),
    },
    acked: { t: Float64Array.from(acked, (each) => each.t), ack: Float64Array.from(acked, (each) => each.ack) },
  };
}
