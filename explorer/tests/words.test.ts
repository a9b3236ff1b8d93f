import { describe, expect, test } from 'vitest';
import { changed, flowViews, pathWords, read, shorter, together } from '../src/document';
import type { FlowSummary, LinkSummary } from '../src/engine';
import { GLOSSARY, terms, type Name } from '../src/glossary';
import { signs, type Mark } from '../src/series';
import { alike, fairness, felt, sharing } from '../src/words';

const flow = (name: string, goodput_mbps: number): FlowSummary =>
  ({ name, kind: 'bulk', goodput_mbps, retransmissions: 2, loss: 0 }) as FlowSummary;

describe('terms', () => {
  const said = (sentence: string, known?: Set<Name>) => terms(sentence, known).map(({ text, term }) => (term ? `[${text}]` : text));

  test('the_first_of_each_in_a_text_can_be_asked_about', () => {
    expect(said('MOS 4.4, median 3 ms; another median.').join('')).toBe('[MOS] 4.4, [median] 3 ms; another median.');
    const known = new Set<Name>();
    terms('1 BDP', known);
    expect(said('2 BDP', known).join('')).toBe('2 BDP');
  });

  test('a_part_of_a_word_is_no_term', () => {
    expect(said('medians, MOSt, 95 % of them')).toEqual(['medians, MOSt, ', '[95 %]', ' of them']);
  });

  test('each_is_explained_in_other_words', () => {
    for (const { means } of Object.values(GLOSSARY)) expect(means).toMatch(/\.$/);
  });
});

describe('flows', () => {
  const views = flowViews(read('[[flow]]\nname = "one"\n[[flow]]\nname = "many"\ncount = 3\n[[flow]]\nname = "last"'));

  test('those_stated_once_are_together_and_what_comes_after_keeps_its_place', () => {
    const flows = ['one', 'many-1', 'many-2', 'many-3', 'last'].map((name) => flow(name, 1));
    expect(together(flows, views).map(({ name, flows }) => [name, flows.length])).toEqual([['one', 1], ['many', 3], ['last', 1]]);
    expect(views.map((view) => view.place)).toEqual([0, 1, 4]);
  });

  test('alike_ones_are_described_by_their_sum_and_their_extremes', () => {
    const { figure, meaning } = alike([flow('a', 1), flow('b', 3), flow('c', 2)]);
    expect(figure).toBe('6 Mbit/s');
    expect(meaning).toContain('each 1 to 3 Mbit/s; 6 segments');
  });

  test('shares_of_four_to_five_are_not_called_equal', () => {
    const jain = (...shares: number[]) => shares.reduce((sum, share) => sum + share) ** 2 / shares.length / shares.reduce((sum, share) => sum + share ** 2, 0);
    expect(fairness(jain(24.7, 13.8))).toBe('unequal');
    expect(fairness(jain(21.4, 17.1))).toBe('not far from equal');
    expect(fairness(jain(19, 20))).toBe('about equal');
  });
});

describe('what_a_flow_had', () => {
  const measured = (rest: Partial<FlowSummary>): FlowSummary => ({ ...flow('x', 4), ...rest });

  test('a_delay_is_named_by_the_way_it_was_measured', () => {
    const ping = { kind: 'ping', delay_p50_ms: 20.1, delay_p95_ms: 21 };
    expect(felt(measured({ ...ping, delay_of: 'one-way' })).meaning).toMatch(/^one way/);
    expect(felt(measured({ ...ping, delay_of: 'round-trip' })).meaning).toMatch(/^there and back/);
  });

  test('a_score_of_a_call_whose_delay_swings_says_what_it_leaves_out', () => {
    const call = { kind: 'voip', mos: 4.2, delay_of: 'one-way' as const };
    expect(felt(measured({ ...call, delay_p50_ms: 15, delay_p95_ms: 215 })).meaning).toContain('the delay swings (median 15 ms)');
    expect(felt(measured({ ...call, delay_p50_ms: 200, delay_p95_ms: 215 })).meaning).not.toContain('swings');
  });

  test('shares_are_of_a_link_in_one_direction', () => {
    const over = (name: string): FlowSummary => ({ ...flow(name, 1), cc: 'cubic' });
    const link = (name: string, jain?: number): LinkSummary => ({ name, utilisation: 1, jain }) as LinkSummary;
    const flows = [over('down'), over('also-down'), over('up'), flow('call', 1)];
    const routes = [['bottleneck'], ['bottleneck'], ['return'], ['bottleneck']];
    const found = sharing([link('bottleneck', 0.9), link('return')], flows, routes);
    expect(found.map((each) => [each.link, each.flows.map(({ name }) => name)])).toEqual([['bottleneck', ['down', 'also-down']]]);
  });

  test('a_count_that_is_still_being_typed_costs_nothing', () => {
    const many = flowViews(read('[[flow]]\nname = "many"\ncount = 1000000000'));
    const began = performance.now();
    expect(together([flow('many-7', 1), flow('many-0', 1)], many).map(({ name }) => name)).toEqual(['many', 'many-0']);
    expect(performance.now() - began).toBeLessThan(100);
  });
});

describe('a_scenario', () => {
  test('a_part_that_is_changed_in_the_text_is_reported_with_its_changes', () => {
    expect(changed('linux', 'name')).toBe('');
    expect(changed({ name: 'reno' }, 'name')).toBe('');
    expect(changed({ name: 'reno', max_ssthresh: 100 }, 'name')).toBe('max_ssthresh = 100');
  });

  test('a_shorter_one_lasts_for_some_round_trips', () => {
    const given = read('duration = "60s"\n[dumbbell]\nrate = "10gbit"\nrtt = "80ms"');
    expect(shorter(given, 0.0016)).toBe('800ms');
    expect(shorter(given, 0.09)).toBe('5s');
    expect(shorter(given, 9)).toBe('30s');
  });

  test('paths_are_distinguished_by_rate_and_round_trip', () => {
    expect(pathWords(read('[dumbbell]\nrate = "10mbit"\nrtt = "80ms"'))).toBe('10 Mbit/s, 80 ms');
    expect(pathWords(read('path = "docsis"'))).toBe('docsis');
  });
});

test('the_signs_of_a_plot_are_named', () => {
  const marks = ['drop', 'drop', 'mark', 'timeout', 'cwr-entered', 'recovery-entered'].map((what) => ({ what }) as Mark);
  expect(signs(marks)).toBe('× 2 drops, △ 1 mark, □ 1 timeout, ○ 2 reductions');
});
