// What the explorer costs: bytes to load, time to the first picture and after a slider, speed beside the native engine,
// frames while a slider is dragged, memory over 500 runs. `npm run measure` prints the figures of docs/explorer.md.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { asked, discard, enginePage, launch, opened, serve, site, type Served } from './harness';

let server: Served;
let browser: Browser;
let folder: string;

beforeAll(async () => {
  folder = await enginePage();
  server = await serve(site);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  server?.close();
  discard(folder);
});

const say = (text: string) => process.stdout.write(`${text}\n`);
const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
const share = (values: number[], part: number) => [...values].sort((a, b) => a - b)[Math.floor(part * (values.length - 1))]!;

test('bytes of the first load, compressed', async () => {
  const page = await browser.newPage();
  const got: { name: string; bytes: number }[] = [];
  page.on('response', async (answer) => {
    const body = await answer.body().catch(() => Buffer.alloc(0));
    got.push({ name: answer.url().split('/').pop() || 'index.html', bytes: gzipSync(body, { level: 9 }).length });
  });
  await page.goto(server.url);
  await page.waitForSelector('.links .note');
  await page.waitForLoadState('networkidle');
  const whole = got.reduce((sum, it) => sum + it.bytes, 0);
  say(`first load: ${whole} bytes with gzip -9: ${got.map((it) => `${it.name} ${it.bytes}`).join(', ')}`);
  expect(whole).toBeLessThan(2e6);
  await page.close();
});

test('time to the first picture', async () => {
  const times: [number, number][] = [];
  for (let number = 0; number < 7; number += 1) {
    const page = await browser.newPage();
    await page.addInitScript(() => {
      const seen = window as unknown as { drawn?: number; told?: number };
      new MutationObserver(() => {
        if (seen.drawn === undefined && document.querySelector('.charts canvas')) seen.drawn = performance.now();
        if (seen.told === undefined && document.querySelector('.links .note')) seen.told = performance.now();
      }).observe(document, { childList: true, subtree: true });
    });
    await page.goto(server.url);
    await page.waitForFunction(() => (window as unknown as { told?: number }).told !== undefined);
    times.push(await page.evaluate(() => {
      const seen = window as unknown as { drawn: number; told: number };
      return [seen.drawn, seen.told] as [number, number];
    }));
    await page.close();
  }
  say(`first plot drawn after ${times.map(([drawn]) => drawn.toFixed(0)).join(', ')} ms; first run told after ${times.map(([, told]) => told.toFixed(0)).join(', ')} ms`);
});

test('packets a second beside the native engine', async () => {
  const engine = await serve(folder);
  const { page } = await opened(browser, engine.url);
  await page.waitForFunction(() => window.engine !== undefined);
  const ratios: number[] = [];
  for (let number = 0; number < 5; number += 1) {
    const native = asked<{ toml: string; packets: number; wall_ms: number }>('speed', '5');
    const here = await page.evaluate(async (toml) => {
      const out = await window.engine.run(toml, { pictures: false });
      return { packets: Number(out.tables.engine!.columns.packets![0]), wall_ms: out.wall_ms };
    }, native.toml);
    expect(here.packets).toBe(native.packets);
    ratios.push(native.wall_ms / here.wall_ms);
    const speed = (it: { packets: number; wall_ms: number }) => (it.packets / it.wall_ms / 1e3).toFixed(2);
    say(`${here.packets} packets: native ${speed(native)} million a second, Chromium ${speed(here)}`);
  }
  say(`Chromium has ${ratios.map((it) => it.toFixed(2)).join(', ')} of the native speed, median ${median(ratios).toFixed(2)}`);
  await page.close();
  engine.close();
});

/** Move a slider and wait for the run's own words: milliseconds. */
const answer = (page: Page, place: number) =>
  page.evaluate(async (value) => {
    const note = () => document.querySelector<HTMLElement>('.links .note')?.innerText;
    const before = note();
    const slider = document.querySelector<HTMLInputElement>('[data-slider=rtt]')!;
    const began = performance.now();
    slider.value = String(value);
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    while (note() === before) await new Promise((done) => setTimeout(done, 1));
    return performance.now() - began;
  }, place);

test('a slider is answered, and frames go on while it is dragged', async () => {
  const { page } = await opened(browser, server.url);
  await page.waitForSelector('.links .note');
  const times: number[] = [];
  for (let number = 0; number < 40; number += 1) {
    times.push(await answer(page, 250 + (number % 20) * 3 + Math.floor(number / 20)));
    await page.waitForTimeout(30);
  }
  say(`a slider's answer for 60 s: median ${median(times).toFixed(0)} ms, 95 % within ${share(times, 0.95).toFixed(0)} ms`);
  const frames = await page.evaluate(async () => {
    const slider = document.querySelector<HTMLInputElement>('[data-slider=rtt]')!;
    const gaps: number[] = [];
    let last = performance.now();
    const until = last + 4000;
    for (let step = 0; last < until; step += 1) {
      slider.value = String(240 + (step % 100));
      slider.dispatchEvent(new Event('input', { bubbles: true }));
      await new Promise((done) => requestAnimationFrame(done));
      const now = performance.now();
      gaps.push(now - last);
      last = now;
    }
    return gaps;
  });
  say(`${((1e3 * frames.length) / frames.reduce((a, b) => a + b, 0)).toFixed(0)} frames a second while a slider is dragged; the longest gap was ${Math.max(...frames).toFixed(0)} ms`);
  await page.close();
});

test('memory over 500 runs', async () => {
  const engine = await serve(folder);
  const { page } = await opened(browser, engine.url);
  await page.waitForFunction(() => window.engine !== undefined);
  const toml = readFileSync(new URL('../src/start.toml', import.meta.url), 'utf8');
  const session = await browser.newBrowserCDPSession();
  const resident = async () => {
    const { processInfo } = (await session.send('SystemInfo.getProcessInfo')) as { processInfo: { type: string; id: number }[] };
    const pages = processInfo.filter((it) => it.type === 'renderer');
    const kilobytes = pages.map(({ id }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1] ?? 0));
    return kilobytes.reduce((a, b) => a + b, 0) / 1e3;
  };
  const heap = () => page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize / 1e6);
  const runs = (count: number) =>
    page.evaluate(async ([text, number]) => {
      for (let run = 0; run < (number as number); run += 1) await window.engine.run(text as string);
    }, [toml, count] as const);
  for (const [count, so] of [[50, 50], [50, 100], [200, 300], [200, 500]] as const) {
    await runs(count);
    say(`after ${so} runs: ${(await resident()).toFixed(0)} MB resident in the renderers, ${(await heap()).toFixed(1)} MB of JavaScript heap`);
  }
  await page.close();
  engine.close();
});
