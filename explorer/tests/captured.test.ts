import { expect, test } from 'vitest';
import { isCapture } from '../src/captured';
import { panels } from '../src/series';
import { datagrams } from './pcap';
import { captured, wasm } from './engine';

test('a_capture_is_known_by_its_first_bytes_and_a_scenario_is_none', async () => {
  expect(await isCapture(new Blob([datagrams(1)]))).toBe(true);
  expect(await isCapture(new Blob([new Uint8Array([0x1f, 0x8b, 8, 0])]))).toBe(true);
  expect(await isCapture(new Blob(['name = "a scenario"\n']))).toBe(false);
  expect(await isCapture(new Blob([]))).toBe(false);
});

test('a_captures_throughput_is_drawn_as_a_runs_and_adds_up', () => {
  const outcome = captured(datagrams(101), 'x.pcap');
  const [rate, ...others] = panels(outcome);
  expect(others).toEqual([]);
  expect(rate!.id).toBe('rate');
  expect(rate!.lines.map((line) => line.label)).toEqual(['10.0.0.1:4000>10.0.0.2:5000/udp']);
  const known = Array.from(rate!.lines[0]!.y).filter(Number.isFinite);
  const mean = known.reduce((total, value) => total + value, 0) / known.length;
  // 101 datagrams of 100 bytes in a second.
  expect(mean).toBeCloseTo(0.0808, 3);
  expect(outcome.flows[0]!.goodput_mbps).toBeCloseTo(0.0808, 9);
  expect(outcome.warnings).toEqual([]);
});

test('what_is_no_capture_is_refused_by_its_first_bytes', () => {
  expect(() => wasm.capture(new TextEncoder().encode('hello, world, no capture'), 'x.pcap')).toThrow(
    /x\.pcap is no capture: it begins with 68 65 6c 6c 6f/,
  );
});
