import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  edit,
  flowViews,
  list,
  queueOf,
  read,
  table,
  withDiscipline,
  withLimit,
  write,
} from '../src/document';
import { bitRate, limit, limitText, rateText, rateWords, seconds, timeText } from '../src/quantity';

const folder = new URL('../../python/tailback/examples/scenarios/', import.meta.url);
const files = ['', 'gallery/', 'expect/'].flatMap((sub) =>
  readdirSync(new URL(sub, folder))
    .filter((name) => name.endsWith('.toml'))
    .map((name) => sub + name),
);
const text = (name: string): string => readFileSync(new URL(name, folder), 'utf8');

describe.each(files)('%s', (name) => {
  test('is_read_and_written_with_nothing_changed', () => {
    const document = read(text(name));
    expect(read(write(document))).toEqual(document);
  });

  test('a_change_keeps_its_comments_and_everything_else', () => {
    const before = read(text(name));
    const after = edit(text(name), (document) => (document['seed'] = 77));
    expect(read(after)).toEqual({ ...before, seed: 77 });
    const comments = text(name).match(/^#.*$/gm) ?? [];
    for (const comment of comments) expect(after).toContain(comment);
  });
});

test('flows_can_be_added_changed_and_removed_in_the_text', () => {
  const start = text('voip-and-bulk.toml');
  const added = edit(start, (document) => (document.flow = [...list(document.flow), { name: 'more', app: 'ping' }]));
  expect(flowViews(read(added)).map((flow) => flow.name)).toEqual(['bulk', 'voip', 'more']);
  const removed = edit(added, (document) => (document.flow = list(document.flow).filter((_, at) => at !== 0)));
  expect(flowViews(read(removed)).map((flow) => flow.name)).toEqual(['voip', 'more']);
  const unset = edit(
    start,
    (document) => (document['dumbbell'] = { ...table(document['dumbbell']), queue: undefined }),
  );
  expect(table(read(unset)['dumbbell'])).toEqual({ rate: '10mbit', rtt: '80ms' });
});

test('a_queue_is_a_size_a_name_or_a_table', () => {
  const names = ['fifo', 'codel'];
  expect(queueOf('2bdp', names)).toEqual({ discipline: 'fifo', size: { amount: 2, unit: 'bdp' } });
  expect(queueOf('codel', names)).toEqual({ discipline: 'codel' });
  expect(withLimit('codel', '1bdp', names)).toEqual({ discipline: 'codel', limit: '1bdp' });
  expect(withDiscipline('2bdp', 'codel', names)).toBe('codel');
  expect(withDiscipline('codel', 'fifo', names)).toBe('1bdp');
});

test('quantities_are_read_with_their_units_and_written_back', () => {
  expect([bitRate('10mbit'), bitRate('1.5Gbps'), bitRate('8kibit/s')]).toEqual([1e7, 1.5e9, 8192]);
  expect([seconds('80ms'), seconds('250us'), seconds('1min')]).toEqual([0.08, 0.00025, 60]);
  expect(seconds('80')).toBeUndefined();
  expect(limit('64KiB')).toEqual({ amount: 65536, unit: 'bytes' });
  for (const each of ['10mbit', '2.5gbit', '128kbit']) expect(rateText(bitRate(each)!)).toBe(each);
  for (const each of ['80ms', '1.5s', '250us', '0s']) expect(timeText(seconds(each)!)).toBe(each);
  for (const each of ['0.25bdp', '50packets', '64kB', '100ms']) expect(limitText(limit(each)!)).toBe(each);
  expect([rateWords(1e7), rateWords(5e8), rateWords(2e9), rateWords(64e3)]).toEqual([
    '10 Mbit/s',
    '500 Mbit/s',
    '2 Gbit/s',
    '64 kbit/s',
  ]);
});
