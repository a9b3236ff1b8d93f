import { describe, expect, test } from 'vitest';
import { forPictures, read, write } from '../src/document';
import { figures, holds } from '../src/figures';
import { tours } from '../src/tours';
import { run } from './engine';

const measured = (toml: string): Record<string, number> => figures(run(write(forPictures(read(toml)))));

test('there_are_tours_of_the_mechanisms_that_a_lecture_explains', () => {
  expect(tours.map((tour) => tour.id)).toEqual([
    'bufferbloat',
    'slow-start',
    'sawtooth',
    'cubic',
    'htcp',
    'codel',
    'bbr',
    'rtt-unfairness',
    'l4s',
  ]);
});

describe.each(tours)('$id', ({ steps, question, summary }) => {
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
      const said = step.text.replace(/\{[^}]+\}/g, '').match(/\d+(\.\d+)?/g) ?? [];
      // 95 % is the quantile that every delay here is given at.
      for (const number of said.filter((each) => each !== '95'))
        expect.soft(known, `${step.title}: ${number}`).toContain(number);
      before = step.toml;
    }
  });
});
