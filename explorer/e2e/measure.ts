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

/** The processes of a kind: those that hold pages are renderers. */
async function processes(of: RegExp): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = (await session.send('SystemInfo.getProcessInfo')) as { processInfo: { type: string; id: number }[] };
  await session.detach();
  return processInfo.filter((it) => of.test(it.type)).map((it) => it.id);
}

/** Milliseconds of processor time that pages, or all of Chromium, have used, with all threads. */
async function processor(of = /renderer/): Promise<number> {
  // Fields 14 and 15 of stat, in hundredths of a second.
  const ticks = (await processes(of)).map((id) => {
    const fields = readFileSync(`/proc/${id}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return Number(fields[11]) + Number(fields[12]);
  });
  return 10 * ticks.reduce((a, b) => a + b, 0);
}

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
  const used: number[] = [];
  for (let number = 0; number < 5; number += 1) {
    const page = await browser.newPage();
    const before = await processor(/./);
    await page.addInitScript(() => {
      const seen = window as unknown as { drawn?: number; told?: number };
      new MutationObserver(() => {
        if (seen.drawn === undefined && document.querySelector('.charts canvas')) seen.drawn = performance.now();
        if (seen.told === undefined && document.querySelector('.links .note')) seen.told = performance.now();
      }).observe(document, { childList: true, subtree: true });
    });
    await page.goto(server.url);
    await page.waitForFunction(() => (window as unknown as { told?: number }).told !== undefined);
    used.push((await processor(/./)) - before);
    times.push(await page.evaluate(() => {
      const seen = window as unknown as { drawn: number; told: number };
      return [seen.drawn, seen.told] as [number, number];
    }));
    await page.close();
  }
  say(`until the first run is told Chromium uses ${used.join(', ')} ms of processor time, all processes and threads`);
  say(`first plot drawn after ${times.map(([drawn]) => drawn.toFixed(0)).join(', ')} ms; first run told after ${times.map(([, told]) => told.toFixed(0)).join(', ')} ms`);
});

test('packets a second beside the native engine', async () => {
  const engine = await serve(folder);
  const { page } = await opened(browser, engine.url);
  await page.waitForFunction(() => window.engine !== undefined);
  const ratios: number[] = [];
  for (let number = 0; number < 6; number += 1) {
    const native = asked<{ toml: string; packets: number; cpu_ms: number }>('speed', '10');
    const before = await processor();
    const packets = await page.evaluate(
      async (toml) => Number((await window.engine.run(toml, { pictures: false })).tables.engine!.columns.packets![0]),
      native.toml,
    );
    const cpu = (await processor()) - before;
    expect(packets).toBe(native.packets);
    const speed = (milliseconds: number) => (packets / milliseconds / 1e3).toFixed(2);
    say(`${packets} packets: native ${speed(native.cpu_ms)} million a second of processor time, Chromium ${speed(cpu)}`);
    // In the first the module is still being compiled.
    if (number > 0) ratios.push(native.cpu_ms / cpu);
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
    // A step so small that the text stays has no answer.
    while (note() === before && performance.now() - began < 5000) await new Promise((done) => setTimeout(done, 1));
    return note() === before ? NaN : performance.now() - began;
  }, place);

test('a slider is answered, and frames go on while it is dragged', async () => {
  const { page } = await opened(browser, server.url);
  await page.waitForSelector('.links .note');
  const times: number[] = [];
  const before = await processor(/./);
  for (let number = 0; number < 30; number += 1) {
    const time = await answer(page, number % 2 ? 230 + number : 290 + number);
    if (!Number.isNaN(time)) times.push(time);
  }
  expect(times.length).toBeGreaterThan(20);
  const used = ((await processor(/./)) - before) / times.length;
  say(`a slider's answer for 60 s takes ${used.toFixed(0)} ms of processor time, all processes and threads`);
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
  const resident = async () => {
    const kilobytes = (await processes(/renderer/)).map((id) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))?.[1] ?? 0));
    return kilobytes.reduce((a, b) => a + b, 0) / 1e3;
  };
  const heap = () => page.evaluate(() => (performance as unknown as { memory: { usedJSHeapSize: number } }).memory.usedJSHeapSize / 1e6);
  const runs = (count: number) =>
    page.evaluate(async ([text, number]) => {
      for (let run = 0; run < (number as number); run += 1) await window.engine.run(text as string);
    }, [toml, count] as const);
  // What nothing holds any more is collected first: when the browser would do it by itself is chance.
  const devtools = await page.context().newCDPSession(page);
  const collect = () => devtools.send('HeapProfiler.collectGarbage');
  const sizes: number[] = [];
  for (const [count, so] of [[50, 50], [50, 100], [200, 300], [200, 500]] as const) {
    await runs(count);
    await collect();
    sizes.push(await resident());
    say(`after ${so} runs: ${sizes.at(-1)!.toFixed(0)} MB resident in the renderers, ${(await heap()).toFixed(1)} MB of JavaScript heap`);
  }
  // What is kept would grow with the runs.
  expect(sizes.at(-1)!).toBeLessThan(1.1 * sizes[1]!);
  await page.close();
  engine.close();
});
