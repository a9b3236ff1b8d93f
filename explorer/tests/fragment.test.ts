import { expect, test } from 'vitest';
import { decode, encode } from '../src/fragment';

const toml = 'name = "é – 漢"\nduration = "60s" # a comment stays\n';

test('a_state_comes_back_as_it_was_shared', async () => {
  const shared = { toml, zoom: [1.5, 2.25] as [number, number], tour: 'bufferbloat', step: 3 };
  expect(await decode(`#${await encode(shared)}`)).toEqual(shared);
});

test('a_fragment_is_shorter_than_a_scenario_of_many_flows_and_fits_an_address', async () => {
  const long = toml + '[[flow]]\napp = "bulk"\ncc = "cubic"\n'.repeat(200);
  const fragment = await encode({ toml: long });
  expect(fragment.length).toBeLessThan(long.length / 10);
  expect(fragment).toMatch(/^s=[\w-]+$/);
});

test('an_address_without_a_state_is_none', async () => {
  expect(await decode('')).toBeUndefined();
  expect(await decode('#results')).toBeUndefined();
});

test.each(['#s=', '#s=!!!', '#s=AAAA', '#s=eyJ0b21sIjoxfQ'])(
  'a_broken_fragment_is_reported_in_words: %s',
  async (fragment) => {
    await expect(decode(fragment)).rejects.toThrow(/^The link is damaged/);
  },
);

test('a_fragment_cut_off_anywhere_is_reported_in_words', async () => {
  const whole = await encode({ toml: toml.repeat(5) });
  for (let length = 3; length < whole.length; length += 7) {
    await expect(decode(`#${whole.slice(0, length)}`)).rejects.toThrow(/^The link is damaged/);
  }
});

test('a_state_without_a_scenario_and_one_that_swells_are_refused', async () => {
  await expect(decode(`#${await encode({ toml: 1 as unknown as string })}`)).rejects.toThrow('it holds no scenario');
  await expect(decode(`#${await encode({ toml: '#'.repeat(5_000_000) })}`)).rejects.toThrow('larger than any scenario');
});
