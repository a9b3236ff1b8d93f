import { describe, expect, test } from 'vitest';
import { figures, holds, said } from '../src/figures';
import { filled, named, tours } from '../src/tours';
import { run } from './engine';

const measured = (toml: string): Record<string, number> => figures(run(toml));

test('there_are_tours_of_the_mechanisms_that_a_lecture_explains', () => {
  expect(tours().map((tour) => tour.id)).toEqual([
    'bufferbloat',
    'slow-start',
    'sawtooth',
    'cubic',
    'htcp',
    'codel',
    'bbr',
    'rtt-unfairness',
    'l4s',
    'household',
  ]);
});

test('a_count_is_written_in_full_and_a_measure_in_three_digits', () => {
  expect(filled('{a} and {b}', { a: 10072, b: 12.3456 }).map((part) => part.text).join('')).toBe('10072 and 12.3');
});

/** What is written down as digits, and not filled in from a run. */
const written = (text: string): string[] => text.replace(/\{[^}]+\}/g, '').match(/\d+(\.\d+)?/g) ?? [];

describe.each(tours())('$id', ({ steps, question, summary, start, answer }) => {
  test('it_has_five_steps_and_a_question', () => {
    expect(steps).toHaveLength(5);
    expect(question).toMatch(/\?/);
    expect(summary).not.toBe('');
    for (const step of steps) expect([step.title, step.text].every(Boolean)).toBe(true);
  });

  test('what_it_says_is_so', () => {
    let before: Record<string, number> = {};
    let last = '';
    let found: Record<string, number> = {};
    for (const [number, step] of steps.entries()) {
      if (step.toml !== last) {
        const previous = Object.entries(found).map(([name, value]) => [`before.${name}`, value] as const);
        before = Object.fromEntries(previous);
        found = measured(step.toml);
        last = step.toml;
      }
      const all = { ...found, ...before };
      if (process.env['SAY'])
        console.log(
          `== ${step.title}: ${[...new Set([...step.text.matchAll(/\{([^}]+)\}/g)].map((each) => each[1]!))].map((name) => `${name}=${all[name]?.toPrecision(4)}`).join(' ')} | ${step.claims.join('; ')}`,
        );
      for (const claim of step.claims) expect.soft(holds(claim, all), `step ${number + 1}: ${claim}`).toBe(true);
      for (const [, name] of step.text.matchAll(/\{([^}]+)\}/g))
        expect.soft(all, `step ${number + 1}`).toHaveProperty([name!]);
    }
  }, 60_000);

  test('every_number_that_it_writes_down_is_set_in_its_scenario_or_claimed', () => {
    let before = '';
    for (const step of steps) {
      const known = [before, step.toml, step.law, ...step.claims].join(' ').match(/\d+(\.\d+)?/g) ?? [];
      // 95 % is the quantile that every delay here is given at.
      for (const number of written(step.text).filter((each) => each !== '95'))
        expect.soft(known, `${step.title}: ${number}`).toContain(number);
      before = step.toml;
    }
  });

  test('its_answer_is_so', () => {
    const all: Record<string, number> = {};
    for (const run of answer.runs)
      for (const [name, value] of Object.entries(measured(run.toml))) all[`${run.name}.${name}`] = value;
    expect(answer.claims.length).toBeGreaterThan(0);
    for (const claim of answer.claims) expect.soft(holds(claim, all), claim).toBe(true);
    for (const name of named(answer.text)) expect.soft(all).toHaveProperty([name]);
    const known = [question, start, answer.law, ...answer.claims, ...answer.runs.flatMap((run) => [run.toml, run.says])]
      .join(' ')
      .match(/\d+(\.\d+)?/g);
    for (const number of written(answer.text).filter((each) => each !== '95')) expect.soft(known, number).toContain(number);
  }, 60_000);

  test('a_readers_run_can_be_described_in_the_words_of_its_figures', () => {
    for (const name of [...steps.map((step) => step.text), answer.text].flatMap(named))
      expect.soft(said(name).what).toContain(': ');
  });

  test('each_step_says_which_plots_it_is_about', () => {
    for (const { look, title } of steps) {
      expect.soft(look, title).not.toHaveLength(0);
      for (const id of look) expect.soft(['queue', 'window', 'rate', 'felt', 'rtt'], title).toContain(id);
    }
  });
});
