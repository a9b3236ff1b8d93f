// Figures of a run by name, for the sentences of the tours and the conditions that test them.

import type { Outcome } from './engine';
import { groups, numbers, pick, resolved, waiting, word } from './series';

const REDUCTIONS = ['recovery-entered', 'timeout', 'cwr-entered'];
/** What a flow does once its first growth is over. */
const SETTLED = 1 / 3;

function quantile(values: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(values).filter(Number.isFinite).sort();
  if (!sorted.length) return NaN;
  const at = share * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (at - below);
}

/** Every figure of a run: `flow.NAME.…` and `link.NAME.…`. */
export function figures(outcome: Outcome): Record<string, number> {
  const scenario = resolved(outcome);
  const end = scenario.duration_ps / 1e12;
  const out: Record<string, number> = { 'run.events': outcome.events, 'run.seconds': end };
  const carried = outcome.flows
    .filter((_, at) => scenario.flows[at]?.tcp)
    .reduce((sum, flow) => sum + (flow.goodput_mbps || 0), 0);
  const polls = groups(outcome.tables['polls'], 'flow');
  const happened = groups(outcome.tables['congestion'], 'flow');
  outcome.flows.forEach((flow, number) => {
    const put = (name: string, value: number | undefined): void => {
      if (value !== undefined && Number.isFinite(value)) out[`flow.${flow.name}.${name}`] = value;
    };
    for (const key of [
      'goodput_mbps',
      'delay_p50_ms',
      'delay_p95_ms',
      'mos',
      'page_load_ms',
      'completion_ms',
      'retransmissions',
      'timeouts',
    ] as const)
      put(key, flow[key]);
    put('loss_percent', 100 * flow.loss);
    const spec = scenario.flows[number]!;
    if (!spec.tcp) return;
    put('share_percent', (100 * flow.goodput_mbps) / carried);
    const rows = polls.get(number);
    if (rows) {
      const table = outcome.tables['polls']!;
      const window = pick(numbers(table, 'cwnd'), rows, 1 / (spec.tcp.mtu - 52));
      const t = pick(numbers(table, 't_s'), rows);
      const late = window.filter((_, at) => t[at]! > end * SETTLED);
      put('window_max', quantile(window, 1));
      put('window_low', quantile(late, 0.02));
      put('window_high', quantile(late, 0.98));
    }
    const congestion = outcome.tables['congestion'];
    const cuts = congestion
      ? Array.from(happened.get(number) ?? []).filter((row) => REDUCTIONS.includes(word(congestion, 'kind', row)))
      : [];
    put('reductions', cuts.length);
    if (!congestion || !cuts.length) return;
    const when = pick(numbers(congestion, 't_s'), cuts);
    const before = pick(numbers(congestion, 'cwnd_before'), cuts);
    const after = pick(numbers(congestion, 'ssthresh'), cuts);
    put('first_reduction_s', when[0]);
    put('window_at_first_reduction', before[0]! / (spec.tcp.mtu - 52));
    put(
      'kept',
      quantile(
        after.map((value, at) => value / before[at]!),
        0.5,
      ),
    );
    put('kept_first', after[0]! / before[0]!);
    put(
      'epoch_s',
      quantile(
        when.slice(1).map((value, at) => value - when[at]!),
        0.5,
      ),
    );
  });
  const backlogs = groups(outcome.tables['queue_polls'], 'link');
  const dropped = groups(outcome.tables['queue'], 'link');
  for (const link of outcome.links) {
    const number = scenario.links.findIndex((each) => each.name === link.name);
    const spec = scenario.links[number]!;
    const put = (name: string, value: number | undefined): void => {
      if (value !== undefined && Number.isFinite(value)) out[`link.${link.name}.${name}`] = value;
    };
    for (const key of ['queue_p50_ms', 'queue_p95_ms', 'drops', 'marks', 'jain'] as const) put(key, link[key]);
    put('utilisation_percent', 100 * link.utilisation);
    if (spec.rate_bps) {
      const rows = backlogs.get(number);
      if (rows) {
        const polls = outcome.tables['queue_polls']!;
        const wait = waiting(outcome, number);
        const t = pick(numbers(polls, 't_s'), rows);
        const waits = pick(numbers(polls, 'backlog_bytes'), rows).map((bytes, at) => wait(bytes, t[at]!));
        const late = waits.filter((_, at) => t[at]! > end * SETTLED);
        put('queue_max_ms', quantile(waits, 1));
        put('queue_low_ms', quantile(late, 0.05));
        put('empty_percent', (100 * late.filter((wait) => wait === 0).length) / late.length);
      }
      const rtt = scenario.flows.map(
        (flow) =>
          [...flow.route, ...flow.back_route].reduce(
            (sum, name) => sum + (scenario.links.find((each) => each.name === name)?.delay_ps ?? 0),
            0,
          ) / 1e12,
      );
      put('bdp_packets', (spec.rate_bps * Math.max(...rtt)) / 8 / 1500);
    }
    const drops = outcome.tables['queue'];
    const times =
      drops &&
      pick(
        numbers(drops, 't_s'),
        Array.from(dropped.get(number) ?? []).filter((row) => word(drops, 'event', row) === 'drop'),
      );
    if (times?.length) {
      put('first_drop_s', times[0]);
      // The burst that a slow start loses, before the sender can have heard of it twice.
      put('first_burst_drops', times.filter((t) => t < times[0]! + 0.5).length);
    }
  }
  return out;
}

/** What the figures that tours speak of are, and their units. */
const SAID: Record<string, [string, string]> = {
  goodput_mbps: ['throughput', 'Mbit/s'],
  share_percent: ['share of the throughput', '%'],
  delay_p50_ms: ['delay, median', 'ms'],
  delay_p95_ms: ['delay, 95 %', 'ms'],
  mos: ['MOS', ''],
  page_load_ms: ['page load time, median', 'ms'],
  loss_percent: ['lost', '%'],
  retransmissions: ['segments sent again', ''],
  timeouts: ['timeouts', ''],
  window_low: ['window, lowest', 'packets'],
  window_high: ['window, highest', 'packets'],
  window_at_first_reduction: ['window at the first reduction', 'packets'],
  first_reduction_s: ['first reduction', 's'],
  kept: ['kept at a reduction', ''],
  epoch_s: ['between reductions', 's'],
  queue_p50_ms: ['queue, median', 'ms'],
  queue_p95_ms: ['queue, 95 %', 'ms'],
  queue_low_ms: ['queue, lowest', 'ms'],
  queue_max_ms: ['queue, highest', 'ms'],
  utilisation_percent: ['in use', '%'],
  empty_percent: ['queue empty', '%'],
  bdp_packets: ['BDP', 'packets'],
  drops: ['drops', ''],
  marks: ['marks', ''],
  first_drop_s: ['first drop', 's'],
  first_burst_drops: ['drops of the first burst', ''],
};

/** `flow.call.delay_p95_ms` as "call: delay, 95 %" and its unit. */
export function said(name: string): { what: string; unit: string } {
  const [, whose, figure] = /^\w+\.(.+)\.(\w+)$/.exec(name)!;
  const found = SAID[figure!];
  if (!found) throw new Error(`no words for the figure ${name}`);
  return { what: `${whose}: ${found[0]}`, unit: found[1] };
}

/** `2 * flow.call.mos`, a figure or a number. */
function amount(text: string, of: Record<string, number>): number {
  return text.split('*').reduce((product, part) => {
    const word = part.trim();
    const value = /^[-\d.]+$/.test(word) ? Number(word) : of[word];
    if (value === undefined || Number.isNaN(value)) throw new Error(`the run has no figure ${word}`);
    return product * value;
  }, 1);
}

/** Equal enough to be said as one number. */
const ABOUT = 0.05;

/** Does it hold? `A < B`, `A > B`, or `A ~ B` for within a twentieth. */
export function holds(claim: string, of: Record<string, number>): boolean {
  const parts = /^(.*?)\s*([<>~])\s*(.*)$/.exec(claim);
  if (!parts) throw new Error(`not a condition: ${claim}`);
  const [left, right] = [amount(parts[1]!, of), amount(parts[3]!, of)];
  return parts[2] === '<'
    ? left < right
    : parts[2] === '>'
      ? left > right
      : Math.abs(left - right) <= ABOUT * Math.abs(right);
}
