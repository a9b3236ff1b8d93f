// The first screen shows the harm, and what is offered there takes it away.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { edit, read } from '../src/document';
import { remedies, sentences, verdict } from '../src/verdict';
import { run } from './engine';

const start = readFileSync(new URL('../src/start.toml', import.meta.url), 'utf8');

test('the_first_run_shows_a_call_that_breaks_when_a_download_starts', () => {
  const found = verdict(run(start));
  expect(found.worry).toBe(2);
  const [gains, suffers] = sentences(found);
  expect(gains).toMatch(/^Download starts at 5 s and gets 9\.\d+ Mbit\/s\.$/);
  expect(suffers).toMatch(/^Call suffers: MOS [23]\.\d, bad: nearly all users are dissatisfied; \d+ ms one way/);
});

test('each_remedy_that_is_offered_makes_the_call_good_again', () => {
  const outcome = run(start);
  const offered = remedies(outcome, read(start));
  expect(offered.map((each) => each.queue)).toEqual(['fq_codel', '1bdp']);
  for (const { queue } of offered) {
    const changed = edit(start, (document) => {
      (document['dumbbell'] as Record<string, string>)['queue'] = queue;
    });
    const after = verdict(run(changed));
    expect(after.worry, queue).toBe(0);
    expect(sentences(after).join(' ')).toContain('Good: call (MOS 4.');
  }
});

test('nothing_is_offered_where_the_queue_is_managed_or_the_path_is_no_dumbbell', () => {
  const managed = start.replace('queue = "10bdp"', 'queue = "fq_codel"');
  expect(remedies(run(managed), read(managed))).toEqual([]);
  const preset = start.replace(/\[dumbbell\][^[]*/, '[path]\npreset = "ethernet"\n\n');
  expect(remedies(run(start), read(preset))).toEqual([]);
});

test('a_run_of_transfers_alone_has_no_one_who_suffers', () => {
  const alone = start.replace(/\[\[flow\]\]\nname = "call"[\s\S]*/, '');
  const found = verdict(run(alone));
  expect([found.worry, found.suffers, found.spared]).toEqual([0, [], []]);
  expect(sentences(found)).toHaveLength(1);
});
