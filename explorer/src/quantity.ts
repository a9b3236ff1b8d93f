// Quantities of a scenario file as numbers, and back: rates in bit/s, times in seconds, sizes in bytes.

const TIME: Record<string, number> = {
  ps: 1e-12,
  ns: 1e-9,
  us: 1e-6,
  µs: 1e-6,
  μs: 1e-6,
  ms: 1e-3,
  s: 1,
  min: 60,
  h: 3600,
};
const SIZE: Record<string, number> = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };
const RATE: Record<string, number> = {
  bit: 1,
  kbit: 1e3,
  mbit: 1e6,
  gbit: 1e9,
  tbit: 1e12,
  kibit: 1024,
  mibit: 1024 ** 2,
  gibit: 1024 ** 3,
};

function split(text: unknown): [number, string] | undefined {
  const found = /^\s*\+?([0-9.][0-9_.eE+-]*)\s*([A-Za-zµμ/]+)\s*$/.exec(typeof text === 'string' ? text : '');
  const number = found ? Number(found[1]!.replaceAll('_', '')) : NaN;
  return Number.isFinite(number) ? [number, found![2]!] : undefined;
}

function scaled(text: unknown, units: Record<string, number>, unit: (name: string) => string): number | undefined {
  const parts = split(text);
  const scale = parts && units[unit(parts[1])];
  return scale === undefined ? undefined : parts![0] * scale;
}

export const seconds = (text: unknown): number | undefined => scaled(text, TIME, (name) => name);
export const bytes = (text: unknown): number | undefined => scaled(text, SIZE, (name) => name);
export const bitRate = (text: unknown): number | undefined =>
  scaled(text, RATE, (name) =>
    name
      .toLowerCase()
      .replace(/(\/s|ps)$/, '')
      .replace(/b$/, 'bit'),
  );

/** A queue's limit, as it is written. */
export interface Limit {
  amount: number;
  unit: 'bdp' | 'packets' | 'bytes' | 'seconds';
}

export function limit(text: unknown): Limit | undefined {
  const parts = split(text);
  if (!parts) return undefined;
  const [amount, unit] = parts;
  if (unit === 'bdp') return { amount, unit: 'bdp' };
  if (unit === 'packets' || unit === 'packet') return { amount, unit: 'packets' };
  const size = bytes(text);
  if (size !== undefined) return { amount: size, unit: 'bytes' };
  const time = seconds(text);
  return time === undefined ? undefined : { amount: time, unit: 'seconds' };
}

/** Three significant digits, without an exponent and without zeros that say nothing. */
export const digits = (value: number, count = 3): string =>
  Number.isFinite(value) ? String(Number(value.toPrecision(count))) : '–';

function largest(value: number, units: [string, number][]): string {
  const [name, scale] = units.find(([, each]) => value >= each) ?? units[units.length - 1]!;
  return `${digits(value / scale)}${name}`;
}

export const rateText = (value: number): string =>
  largest(value, [
    ['gbit', 1e9],
    ['mbit', 1e6],
    ['kbit', 1e3],
    ['bit', 1],
  ]);
export const timeText = (value: number): string =>
  value === 0
    ? '0s'
    : largest(value, [
        ['s', 1],
        ['ms', 1e-3],
        ['us', 1e-6],
        ['ns', 1e-9],
      ]);
export function limitText(size: Limit): string {
  if (size.unit === 'seconds') return timeText(size.amount);
  if (size.unit === 'bytes')
    return largest(size.amount, [
      ['MB', 1e6],
      ['kB', 1e3],
      ['B', 1],
    ]);
  return size.unit === 'packets' ? `${Math.round(size.amount)}packets` : `${digits(size.amount)}bdp`;
}

/** For people: "10 Mbit/s". */
export const rateWords = (value: number): string =>
  rateText(value).replace(
    /([kmgt]?)bit$/,
    (_, prefix: string) => ` ${prefix === 'k' ? 'k' : prefix.toUpperCase()}bit/s`,
  );
export const timeWords = (value: number): string =>
  timeText(value)
    .replace(/([a-z]+)$/, ' $1')
    .replace('us', 'µs');
