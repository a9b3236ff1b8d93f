// Figures as people say them.

import type { FlowSummary, LinkSummary } from './engine';
import { digits } from './quantity';

/** ITU-T G.107 annex B: what users say of a call with this mean opinion score. */
/** Between the median and the 95 % quantile: more is a swing that the score of a call does not show. */
const SWING_MS = 30;

const OPINIONS: [number, string][] = [
  [4.34, 'excellent: everybody is very satisfied'],
  [4.03, 'good: users are satisfied'],
  [3.6, 'fair: some users are dissatisfied'],
  [3.1, 'poor: many users are dissatisfied'],
  [2.58, 'bad: nearly all users are dissatisfied'],
  [-Infinity, 'not usable'],
];

export const opinion = (mos: number): string => OPINIONS.find(([least]) => mos >= least)![1];

/** How bad, from 0 (good) to 2: for a colour that words accompany. */
export const worry = (mos: number): 0 | 1 | 2 => (mos >= 4.03 ? 0 : mos >= 3.1 ? 1 : 2);

export const waiting = (ms: number): string =>
  ms >= 1000 ? `${digits(ms / 1000, 2)} s` : `${digits(ms, ms < 10 ? 2 : 3)} ms`;

/** One line a flow: its figure, and what it means. */
export interface Felt {
  figure: string;
  meaning: string;
  worry: 0 | 1 | 2;
}

export function felt(flow: FlowSummary): Felt {
  const known = (value: number | undefined | null): value is number =>
    value !== undefined && value !== null && Number.isFinite(value);
  const lost = flow.loss > 0 ? `, ${digits(100 * flow.loss, 2)} % lost` : '';
  if (known(flow.mos)) {
    const swings = known(flow.delay_p95_ms) && flow.delay_p95_ms - flow.delay_p50_ms > SWING_MS;
    const swing = swings ? `; the delay swings (median ${waiting(flow.delay_p50_ms)}), which the score leaves out` : '';
    return {
      figure: `MOS ${flow.mos.toFixed(1)}`,
      meaning: `${opinion(flow.mos)}; ${known(flow.delay_p95_ms) ? `${waiting(flow.delay_p95_ms)} one way (95\u00a0%)` : 'no packet came'}${lost}${swing}`,
      worry: worry(flow.mos),
    };
  }
  if (known(flow.page_load_ms)) {
    return {
      figure: waiting(flow.page_load_ms),
      meaning: 'until an object of a page is there (median)',
      // Nielsen (1993, chapter 5): beyond one second the flow of thought is broken, beyond ten attention.
      worry: flow.page_load_ms < 1000 ? 0 : flow.page_load_ms < 10_000 ? 1 : 2,
    };
  }
  if (known(flow.completion_ms)) {
    const what =
      flow.kind === 'request-response'
        ? 'until the answer is there (median)'
        : flow.kind === 'transfers'
          ? 'until a file is there (median)'
          : 'until all of it is there';
    return { figure: waiting(flow.completion_ms), meaning: what, worry: 0 };
  }
  if (flow.kind === 'ping' && known(flow.delay_p50_ms)) {
    const way = flow.delay_of === 'one-way' ? 'one way' : 'there and back';
    return {
      figure: waiting(flow.delay_p50_ms),
      meaning: `${way} (median); 95\u00a0%: ${waiting(flow.delay_p95_ms)}${lost}`,
      worry: 0,
    };
  }
  const again = flow.retransmissions > 0 ? `; ${flow.retransmissions} segments sent again` : '';
  const delay =
    known(flow.delay_p50_ms) && flow.delay_of === 'round-trip'
      ? `; a round trip takes ${waiting(flow.delay_p50_ms)} (median)`
      : '';
  return { figure: `${digits(flow.goodput_mbps)} Mbit/s`, meaning: `on average${delay}${again}`, worry: 0 };
}

/** Flows of one kind and number as one line: what they have together, and from which to which each. */
export function alike(flows: readonly FlowSummary[]): Felt {
  const sizes = flows.map((flow) => flow.goodput_mbps || 0).sort((a, b) => a - b);
  const worst = flows.map(felt).reduce((worst, each) => (each.worry > worst.worry ? each : worst));
  const call = flows.filter((flow) => flow.mos !== undefined).sort((a, b) => a.mos! - b.mos!)[0];
  if (call) return { ...felt(call), meaning: `the worst of them: ${felt(call).meaning}` };
  const again = flows.reduce((sum, flow) => sum + flow.retransmissions, 0);
  return {
    figure: `${digits(sizes.reduce((sum, size) => sum + size, 0))} Mbit/s`,
    meaning: `together, on average; each ${digits(sizes[0]!)} to ${digits(sizes[sizes.length - 1]!)} Mbit/s${again > 0 ? `; ${again} segments sent again` : ''}`,
    worry: worst.worry,
  };
}

/** Flows over TCP that share a link in one direction. */
export interface Sharing {
  link: string;
  flows: FlowSummary[];
  jain: number;
}

/** Who shares which link, each set of flows once: of links in a row the one that they fill most. */
export function sharing(
  links: readonly LinkSummary[],
  flows: readonly FlowSummary[],
  routes: readonly (readonly string[])[],
): Sharing[] {
  const out = new Map<string, Sharing & { used: number }>();
  for (const link of links) {
    const here = flows.filter((flow, at) => flow.cc && routes[at]?.includes(link.name));
    if (here.length < 2 || link.jain === undefined || !Number.isFinite(link.jain)) continue;
    const key = here.map((flow) => flow.name).join('\n');
    const used = link.utilisation || 0;
    if (!out.has(key) || out.get(key)!.used < used) out.set(key, { link: link.name, flows: here, jain: link.jain, used });
  }
  return [...out.values()];
}

export const fairness = (jain: number): string =>
  jain > 0.995
    ? 'about equal'
    : jain > 0.95
      ? 'not far from equal'
      : jain > 0.8
        ? 'unequal'
        : 'very unequal';
