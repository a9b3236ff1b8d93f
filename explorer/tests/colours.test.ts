import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';

vi.mock('../src/theme', () => ({ theme: { value: 'light' } }));
const { CYCLES } = await import('../src/colours');

const css = readFileSync(new URL('../src/style.css', import.meta.url), 'utf8');
const block = (selector: string): Record<string, string> => {
  const body = css.slice(css.indexOf(`${selector} {`)).split('}')[0]!;
  return Object.fromEntries(
    [...body.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map(([, name, value]) => [name!, value!]),
  );
};
const themes = { light: block(':root'), dark: block(':root[data-theme="dark"]') };

/** WCAG 2.2, relative luminance and contrast ratio. */
function contrast(one: string, other: string): number {
  const luminance = (colour: string): number => {
    const [r, g, b] = [1, 3, 5].map((at) => {
      const part = parseInt(colour.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    }) as [number, number, number];
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

describe.each(Object.entries(themes))('%s', (name, of) => {
  test.each(['ink', 'soft', 'accent', 'fair', 'bad', 'text-green', 'text-blue', 'text-vermilion'])(
    '%s_can_be_read_on_every_ground',
    (text) => {
      for (const ground of ['paper', 'panel'])
        expect(contrast(of[text]!, of[ground]!), ground).toBeGreaterThanOrEqual(4.5);
    },
  );

  test('text_can_be_read_on_what_is_coloured', () => {
    for (const [text, ground] of [
      ['on-accent', 'accent'],
      ['ink', 'warm'],
      ['ink', 'queue'],
      ['soft', 'warm'],
      ['soft', 'queue'],
    ] as const) {
      expect(contrast(of[text]!, of[ground]!), `${text} on ${ground}`).toBeGreaterThanOrEqual(4.5);
    }
  });

  test('lines_and_edges_stand_out', () => {
    for (const colour of CYCLES[name as 'light' | 'dark'])
      expect(contrast(colour!, of['paper']!), colour).toBeGreaterThanOrEqual(3);
    for (const ground of ['paper', 'panel'])
      expect(contrast(of['edge']!, of[ground]!), ground).toBeGreaterThanOrEqual(3);
  });
});
