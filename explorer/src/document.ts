// A scenario file as text, and small changes to it that keep comments and layout.

import { parse, patch, stringify } from '@decimalturn/toml-patch';
import { bitRate, limit, rateWords, seconds, timeText, timeWords, type Limit } from './quantity';

export type Value = string | number | boolean | bigint | Value[] | { [key: string]: Value | undefined };
export type Fields = { [key: string]: Value | undefined };
export interface Document extends Fields {
  flow?: Fields[];
}

/** What was read last: a text is asked for by several, one after another. */
const known = new Map<string, Document>();
const MOST_KNOWN = 4;

/** The scenario that a text describes. Callers must not change it in place. */
export function read(text: string): Document {
  const found = known.get(text) ?? (parse(text) as Document);
  known.delete(text);
  known.set(text, found);
  for (const [oldest] of known) if (known.size > MOST_KNOWN) known.delete(oldest);
  return found;
}

/** The text with one change: what the change does not touch stays as it is written. */
export function edit(text: string, change: (document: Document) => void): string {
  const document = plain(read(text)) as Document;
  change(document);
  const meant = plain(document) as object;
  const patched = patch(text, meant);
  // The patch keeps comments and layout. If its result differs from the meant scenario, the whole text is written again.
  const isSame = JSON.stringify(plain(read(patched)), sorted) === JSON.stringify(meant, sorted);
  return isSame ? patched : stringify(meant);
}

export const write = (document: Document): string => stringify(plain(document) as object);

/** Without the keys that were unset. */
function plain(value: Value | undefined): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, each]) => each !== undefined)
      .map(([key, each]) => [key, plain(each)]),
  );
}

const sorted = (_: string, value: unknown): unknown =>
  value && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : typeof value === 'bigint'
      ? String(value)
      : value;

export const table = (value: Value | undefined): Fields =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {};
export const list = (value: Value | undefined): Fields[] => (Array.isArray(value) ? value.map(table) : []);
export const text = (value: Value | undefined): string => (typeof value === 'string' ? value : '');

/** Name of an algorithm, stack, queue or preset that is given as a name or as a table. */
export const named = (value: Value | undefined, key: string): string => text(value) || text(table(value)[key]);

/** A queue as two choices: whose rule, and how long. A size alone is a FIFO. */
export function queueOf(value: Value | undefined, names: readonly string[]): { discipline: string; size?: Limit } {
  if (value === undefined) return { discipline: 'fifo', size: { amount: 1, unit: 'bdp' } };
  if (typeof value === 'string' && names.includes(value)) return { discipline: value };
  if (typeof value === 'string') return { discipline: 'fifo', size: limit(value) };
  const fields = table(value);
  return { discipline: text(fields['discipline']) || 'fifo', size: limit(fields['limit']) };
}

/** The queue's value with another discipline. Its limit stays, parameters of the old discipline do not. */
export function withDiscipline(value: Value | undefined, discipline: string, names: readonly string[]): Value {
  const fields = table(value);
  const size = fields['limit'] ?? (typeof value === 'string' && !names.includes(value) ? value : undefined);
  if (discipline === 'fifo') return text(size) || '1bdp';
  // A limit that suits a FIFO would make an AQM's queue full before it acts: it has its own.
  return discipline;
}

export function withLimit(value: Value | undefined, size: string, names: readonly string[]): Value {
  if (typeof value === 'string' && names.includes(value) && value !== 'fifo') return { discipline: value, limit: size };
  if (value !== null && typeof value === 'object' && !Array.isArray(value)) return { ...value, limit: size };
  return size;
}

/** What the page sees of a flow. */
export interface FlowView {
  index: number;
  name: string;
  app: string;
  cc: string;
  start: number;
  stop: number | undefined;
  /** Of how many flows before it a run makes lines and cards. */
  place: number;
  /** This many alike. */
  count: number;
  fields: Fields;
}

/** Names as the schema gives them: the application's, numbered if several share it. */
export function flowViews(document: Document): FlowView[] {
  const flows = list(document.flow as Value | undefined);
  const appOf = (flow: Fields): string => text(flow['app']) || 'bulk';
  const unnamed = flows.filter((flow) => !text(flow['name'])).map(appOf);
  const seen: Record<string, number> = {};
  let place = 0;
  return flows.map((flow, index) => {
    const app = appOf(flow);
    let name = text(flow['name']);
    if (!name) {
      seen[app] = (seen[app] ?? 0) + 1;
      name = unnamed.filter((each) => each === app).length > 1 ? `${app}-${seen[app]}` : app;
    }
    const count = Number(flow['count'] ?? 1) || 1;
    place += count;
    return {
      index,
      place: place - count,
      name,
      app,
      cc: named(flow['cc'], 'name') || 'cubic',
      start: seconds(flow['start']) ?? 0,
      stop: seconds(flow['stop']),
      count,
      fields: flow,
    };
  });
}

/** Flows that the scenario states once, with a count, are together. */
export function together<Each extends { name: string }>(
  flows: readonly Each[],
  views: readonly FlowView[],
): { name: string; flows: Each[] }[] {
  // By the names of flows that there are: a count that is still being typed may be any number.
  const counts = new Map(views.filter((view) => view.count > 1).map((view) => [view.name, view.count]));
  const out = new Map<string, Each[]>();
  for (const flow of flows) {
    const [, stem, number] = /^(.*)-([1-9]\d*)$/.exec(flow.name) ?? [];
    const isCounted = stem !== undefined && Number(number) <= (counts.get(stem) ?? 0);
    const name = isCounted ? stem : flow.name;
    const same = out.get(name);
    if (same) same.push(flow);
    else out.set(name, [flow]);
  }
  return [...out].map(([name, flows]) => ({ name, flows }));
}

/** What is set of a congestion control or a stack beside its name, in words; empty for a plain one. */
export function changed(value: Value | undefined, key: string): string {
  const { [key]: _, ...rest } = table(value);
  return Object.entries(rest)
    .map(([name, each]) => `${name} = ${String(each)}`)
    .join(', ');
}

/** A path in a few words, to distinguish two. */
export function pathWords(document: Document): string {
  const shape = shapeOf(document);
  if (shape === 'preset') return named(document['path'], 'preset');
  if (shape === 'network') return 'a network of its own';
  const { rate, rtt } = dumbbellOf(document);
  return `${rateWords(rate)}, ${timeWords(rtt)}`;
}

export const durationOf = (document: Document): number => seconds(document['duration']) ?? 60;

/** In fewer round trips a flow has hardly begun. */
const LEAST_ROUNDS = 10;

/** A duration of about this share of the scenario's in which a flow still gets somewhere. */
export function shorter(document: Document, share: number): string {
  const half = durationOf(document) / 2;
  const wanted = Math.min(Math.max(2 * half * share, LEAST_ROUNDS * dumbbellOf(document).rtt), half);
  // One digit: it is an offer, not a measure.
  const unit = 10 ** Math.floor(Math.log10(wanted));
  return timeText(Math.floor(wanted / unit + 1e-9) * unit);
}

export type Shape = 'dumbbell' | 'preset' | 'network';
export const shapeOf = (document: Document): Shape =>
  document['path'] !== undefined ? 'preset' : document['dumbbell'] !== undefined ? 'dumbbell' : 'network';

export function dumbbellOf(document: Document): { rate: number; rtt: number; loss: number; fields: Fields } {
  const fields = table(document['dumbbell']);
  const delay = seconds(fields['delay']);
  const there = delay ?? 0;
  const rtt = seconds(fields['rtt']) ?? there + (seconds(fields['back_delay']) ?? there);
  const loss = table(fields['wire'])['loss'];
  return { rate: bitRate(fields['rate']) ?? 1e7, rtt, loss: typeof loss === 'number' ? loss : 0, fields };
}

/** The document that records every segment of one flow within a stretch of time, for the packet view. */
export function magnified(document: Document, flow: string, from: number, until: number): Document {
  const instruments: Fields = {
    segments: [flow],
    drops: 'all',
    from: timeText6(from),
    until: timeText6(until),
  };
  const { expect: _, ...rest } = document;
  return { ...rest, instruments } as Document;
}

const timeText6 = (value: number): string => `${Math.max(0, Math.round(value * 1e6))}us`;
