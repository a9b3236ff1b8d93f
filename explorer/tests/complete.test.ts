import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { place, suggestions } from '../src/complete';
import type { Catalogue } from '../src/engine';
import { wasm } from './engine';

const schema = (JSON.parse(wasm.schema()) as { json_schema: object }).json_schema;
const cards = JSON.parse(wasm.catalogue()) as Catalogue;
const catalogue = { ...cards, applications: (cards as unknown as { apps: Catalogue['applications'] }).apps };
const start = readFileSync(new URL('../src/start.toml', import.meta.url), 'utf8');

/** What is offered where | stands. */
const offered = (text: string): string[] => {
  const at = text.indexOf('|');
  return suggestions(text.replace('|', ''), at, schema, catalogue)?.options.map((option) => option.label) ?? [];
};

test('at_the_top_the_fields_of_a_scenario_are_offered_and_in_a_table_its_own', () => {
  expect(offered(`|${start}`)).toEqual(expect.arrayContaining(['duration', 'dumbbell', 'flow']));
  expect(offered('[dumbbell]\n|')).toEqual(expect.arrayContaining(['rate', 'rtt', 'queue']));
  expect(offered('[[flow]]\nna|')).toEqual(expect.arrayContaining(['name', 'cc', 'start']));
  expect(offered('[dumbbell]\nwire = { |')).toEqual(expect.arrayContaining(['loss', 'jitter']));
  expect(offered('[[fl|')).toContain('flow');
});

test('names_of_algorithms_queues_and_applications_are_offered_as_values', () => {
  expect(offered('[[flow]]\ncc = "|')).toEqual(expect.arrayContaining(['"cubic"', '"bbr3"', '"htcp"']));
  expect(offered('[dumbbell]\nqueue = |')).toEqual(expect.arrayContaining(['"fq_codel"', '"dualpi2"']));
  expect(offered('[[flow]]\napp = "vo|')).toContain('"voip"');
  expect(offered('[[flow]]\ncc_turns = ["cubic", "|')).toContain('"reno"');
  expect(offered('[[flow]]\ntwo_way = |')).toEqual(expect.arrayContaining(['true', 'false']));
});

test('nothing_is_offered_in_a_comment', () => {
  expect(offered('# du|')).toEqual([]);
  expect(offered('name = "x" # cc = |')).toEqual([]);
});

test('a_place_is_below_the_last_header_and_inside_open_braces', () => {
  expect(place('[dumbbell]\nqueue = { discipline = "codel", li', 42).path).toEqual(['dumbbell', 'queue']);
  expect(place('[a]\nx = { y = 1 }\nz', 17).path).toEqual(['a']);
});
