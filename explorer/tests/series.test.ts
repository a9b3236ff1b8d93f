import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { magnified, read, write } from '../src/document';
import { figures, holds } from '../src/figures';
import { panels, resolved, segments, waiting } from '../src/series';
import { felt, opinion } from '../src/words';
import { run, wasm } from './engine';

/** The page's first scenario with a queue of one BDP and a download from the beginning. */
const start = readFileSync(new URL('../src/start.toml', import.meta.url), 'utf8')
  .replace('queue = "10bdp"', 'queue = "1bdp"')
  .replace('start = "5s"\n', '');
const outcome = run(start);
const sum = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((total, value) => total + (Number.isFinite(value) ? value : 0), 0);

test('every_flow_and_the_busy_link_have_lines', () => {
  const found = panels(outcome);
  expect(found.map((panel) => panel.id)).toEqual(['queue', 'window', 'rate', 'felt', 'rtt']);
  expect(found[0]!.lines.map((line) => line.label)).toEqual(['bottleneck', 'bottleneck is full']);
  expect(found[1]!.lines.map((line) => line.label)).toEqual(['download']);
  expect(found[3]!.lines.map((line) => line.label).sort()).toEqual(['call: one way', 'reader: answer']);
});

test('the_throughput_adds_up_to_the_bytes_that_arrived', () => {
  const line = panels(outcome)
    .find((panel) => panel.id === 'rate')!
    .lines.find((each) => each.label === 'download')!;
  const mean = sum(line.y) / line.y.length;
  expect(Math.abs(mean / outcome.flows[0]!.goodput_mbps - 1)).toBeLessThan(0.01);
});

test('a_full_queue_is_as_long_as_the_line_that_says_so_and_drops_lie_there', () => {
  const queue = panels(outcome)[0]!;
  const full = queue.lines[1]!.y[0]!;
  expect(full).toBeCloseTo(80, 6);
  const drops = queue.marks.filter((mark) => mark.what === 'drop');
  expect(drops).toHaveLength(outcome.links[0]!.drops);
  for (const drop of drops) expect(drop.y).toBeGreaterThan(full - 2);
});

test('a_wait_follows_the_rates_of_a_schedule', () => {
  const changing = run(`
duration = "12s"
[[link]]
name = "cell"
from = "a"
to = "b"
rate = "8mbit"
delay = "20ms"
queue = "100kB"
duplex = true
schedule = [{ at = "4s", rate = "2mbit" }, { at = "6s", rate = "0bit" }, { at = "7s", rate = "8mbit" }]
[[flow]]
name = "download"
from = "a"
to = "b"
`);
  const wait = waiting(changing, 0);
  expect(wait(100_000, 1)).toBeCloseTo(100);
  expect(wait(100_000, 4.5)).toBeCloseTo(400);
  // 50 kB in the 200 ms before the outage of a second, 50 kB after it.
  expect(wait(100_000, 5.8)).toBeCloseTo(200 + 1000 + 50);
  expect(wait(0, 6.5)).toBeCloseTo(0);
  const [line, ...more] = panels(changing)[0]!.lines;
  expect(Math.max(...Array.from(line!.y))).toBeGreaterThan(1200);
  expect(more.filter((each) => each.level)).toEqual([]);
});

test('each_reduction_can_be_asked_about_by_its_row', () => {
  const marks = panels(outcome)[1]!.marks;
  const table = outcome.tables['congestion']!;
  expect(marks.length).toBeGreaterThan(5);
  for (const mark of marks) expect(table.columns['t_s']![mark.row]).toBe(mark.t);
});

test('the_packet_view_shows_what_was_sent_again_and_what_was_acknowledged', () => {
  const first = outcome.tables['congestion']!.columns['t_s']![0] as number;
  const narrow = new wasm.Run(write(magnified(read(start), 'download', first - 0.2, first + 0.3)), undefined, false);
  while (!narrow.advance(1_000_000));
  const { summary, tables } = narrow.finish() as { summary: string; tables: typeof outcome.tables };
  const seen = segments({ ...outcome, ...(JSON.parse(summary) as object), tables }, 'download');
  expect(seen.sent.t.length).toBeGreaterThan(100);
  expect(seen.sent.again.filter(Boolean).length).toBeGreaterThan(0);
  expect(seen.sent.t[0]).toBeGreaterThanOrEqual(first - 0.2);
  for (let at = 1; at < seen.acked.ack.length; at++)
    expect(seen.acked.ack[at]).toBeGreaterThanOrEqual(seen.acked.ack[at - 1]!);
});

test('what_people_feel_is_said_in_words', () => {
  expect(opinion(4.4)).toContain('excellent');
  expect(opinion(4.1)).toContain('good');
  expect(opinion(2.9)).toContain('bad');
  const [download, call, reader] = outcome.flows.map(felt);
  expect(download!.figure).toMatch(/Mbit\/s$/);
  expect(call!.figure).toMatch(/^MOS 4/);
  expect(reader!.meaning).toContain('object of a page');
});

test('conditions_are_judged_by_the_figures_of_the_run', () => {
  const of = figures(outcome);
  expect(of['link.bottleneck.drops']).toBe(outcome.links[0]!.drops);
  expect(of['link.bottleneck.bdp_packets']).toBeCloseTo(66.67, 1);
  expect(holds('1 < 2 * 3', of)).toBe(true);
  expect(holds('flow.download.kept ~ 0.7', of)).toBe(true);
  expect(holds('flow.download.kept ~ 0.5', of)).toBe(false);
  expect(() => holds('flow.missing.mos > 1', of)).toThrow('no figure flow.missing.mos');
  expect(resolved(outcome).links).toHaveLength(2);
});
