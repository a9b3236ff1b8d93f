// What is taken away is understood without the page.

import { expect, test, vi } from 'vitest';
import { read } from '../src/document';
import type { Outcome } from '../src/engine';

vi.mock('../src/ui/chart', () => ({
  colours: () => ({ ink: '#000', soft: '#777', grid: '#eee', paper: '#fff' }),
  strokeOf: () => ({ colour: '#00f' }),
}));
const { about, shared, svg } = await import('../src/export');

const outcome = {
  engine: {
    duration_ps: 30e12,
    links: [
      { name: 'bottleneck', rate_bps: 1e7, delay_ps: 0, queue: { discipline: 'fq_codel', params: {} } },
      { name: 'free', rate_bps: null, delay_ps: 0, queue: { discipline: 'fifo', params: {} } },
    ],
    flows: [],
  },
  flows: [{ name: 'call', kind: 'voip', mos: 4.4, delay_p50_ms: 20, delay_p95_ms: 21, loss: 0, retransmissions: 0 }],
  links: [{ name: 'bottleneck' }],
} as unknown as Outcome;
const document = read('name = "home <1>"\nseed = 7\n[dumbbell]\nrate = "10mbit"\nrtt = "40ms"');

test('a_picture_carries_name_parameters_and_what_came_of_it', () => {
  const drawing = svg([], [], [0, 30], about(outcome, document));
  for (const text of ['Good: call (MOS 4.4).', 'home &#60;1&#62;', '10 Mbit/s, 40 ms; 30 s simulated; seed 7', 'bottleneck: 10 Mbit/s, fq_codel', 'call (Call): MOS 4.4, excellent'])
    expect(drawing).toContain(text);
  expect(drawing).not.toContain('free');
});

test('what_is_shared_from_this_machine_works_on_another', () => {
  const local = shared('http://127.0.0.1:8642/#s=abc', 'home <1>', 'seed = 7\n', true);
  expect(local.text).not.toContain('127.0.0.1');
  expect(local.text).toContain('tailback explore home-1-.toml');
  expect(read(local.text)).toEqual({ seed: 7 });
  const elsewhere = shared('http://127.0.0.1:8642/#s=abc', 'x', 'seed = 7', true, 'https://example.org/explorer/');
  expect(elsewhere.text).toBe('https://example.org/explorer/#s=abc');
  expect(shared('https://example.org/#s=abc', 'x', 'seed = 7', false).text).toBe('https://example.org/#s=abc');
});
