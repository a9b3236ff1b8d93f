import { expect, test } from 'vitest';
import { expectedSeconds } from '../src/engine/trial';

test('an_even_run_takes_as_long_as_its_beginning_says', () => {
  const even = [100, 200, 300, 400].map((ms) => ({ ms, simulated_s: ms / 50 }));
  expect(expectedSeconds(even, 80)).toBeCloseTo(4, 9);
  expect(expectedSeconds(even.slice(0, 1), 80)).toBeCloseTo(4, 9);
});

test('the_beginning_in_which_flows_grow_does_not_count', () => {
  const growing = [
    { ms: 10, simulated_s: 5 },
    { ms: 200, simulated_s: 10 },
    { ms: 400, simulated_s: 12 },
  ];
  expect(expectedSeconds(growing, 22)).toBeCloseTo(1.4, 9);
});
