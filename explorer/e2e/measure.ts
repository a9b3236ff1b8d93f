// What the explorer costs: bytes to load, time to the first picture and after a slider, speed beside the native engine,
// frames while a slider is dragged, estimates of long runs, memory over 500 runs. `npm run measure` prints the figures of
// docs/explorer.md.

import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { asked, built, discard, enginePage, held, launch, opened, serve, type Served } from './harness';

let server: Served;
let browser: Browser;
let folder: string;

beforeAll(async () => {
  folder = await enginePage();
  server = await serve(built());
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
  say(`first load: ${(whole / 1e6).toFixed(2)} MB with gzip -9, in bytes: ${got.map((it) => `${it.name} ${it.bytes}`).join(', ')}`);
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
      const seen = window as unknown as { drawn?: number; shown?: number };
      new MutationObserver(() => {
        if (seen.drawn === undefined && document.querySelector('.charts canvas')) seen.drawn = performance.now();
        if (seen.shown === undefined && document.querySelector('.links .note')) seen.shown = performance.now();
      }).observe(document, { childList: true, subtree: true });
    });
    await page.goto(server.url);
    await page.waitForFunction(() => (window as unknown as { shown?: number }).shown !== undefined);
    used.push((await processor(/./)) - before);
    times.push(await page.evaluate(() => {
      const seen = window as unknown as { drawn: number; shown: number };
      return [seen.drawn, seen.shown] as [number, number];
    }));
    await page.close();
  }
  say(`until the first run is shown Chromium uses ${used.join(', ')} ms of processor time, all processes and threads`);
  say(`first plot drawn after ${times.map(([drawn]) => drawn.toFixed(0)).join(', ')} ms; first run shown after ${times.map(([, shown]) => shown.toFixed(0)).join(', ')} ms`);
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
    // Not innerText: to ask for that makes the browser lay the page out, again and again.
    const note = () => document.querySelector('.links .note')?.textContent;
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

/** In a browser of its own: the page is then the only one that does anything. */
async function alone(url: string, work: (page: Page) => Promise<void>): Promise<void> {
  const own = await launch();
  try {
    const { page } = await opened(own, url);
    await work(page);
  } finally {
    await own.close();
  }
}

test('how right the estimate of a long run is', async () => {
  const engine = await serve(folder);
  await alone(engine.url, async (page) => {
    await page.waitForFunction(() => window.engine !== undefined);
    for (const [rate, app] of [
      ['1gbit', 'bulk'],
      ['200mbit', 'bulk'],
      ['10gbit', 'transfers'],
    ]) {
      const toml = `duration = "300s"\n[dumbbell]\nrate = "${rate}"\nrtt = "40ms"\n[[flow]]\napp = "${app}"\n[[flow]]\napp = "voip"\n`;
      const [expected_s, took] = await page.evaluate(async (text) => {
        const most = { seconds: 0, rows: 1e9 };
        const expected_s = await window.engine.run(text, { most }).then(() => NaN, (error) => error.expected.seconds as number);
        return [expected_s, (await window.engine.run(text)).wall_ms / 1e3] as const;
      }, toml);
      const expected = Number.isNaN(expected_s) ? 'over within the trial' : `${expected_s.toFixed(1)} s expected`;
      say(`300 s of ${app} at ${rate}: ${expected}, ${took.toFixed(1)} s taken`);
      if (!Number.isNaN(expected_s)) expect(Math.max(expected_s / took, took / expected_s)).toBeLessThan(2);
    }
  });
  engine.close();
});

const ROUNDS = [
  [50, 50],
  [50, 100],
  [200, 300],
  [200, 500],
] as const;

/** Says what is held after 50, 100, 300 and 500 runs; what is kept would grow with them. */
async function grown(what: string, page: Page, runs: (count: number) => Promise<unknown>): Promise<void> {
  const sizes = [];
  for (const [count, so] of ROUNDS) {
    await runs(count);
    const now = await held(page);
    sizes.push(now);
    say(
      `${what}, after ${so} runs: ${now.wasm.toFixed(1)} MB of WebAssembly, ${now.heap.toFixed(1)} MB of JavaScript, ${now.arrays.toFixed(1)} MB of its arrays, ${now.resident.toFixed(0)} MB resident in the page's process`,
    );
  }
  const [, early, , late] = sizes;
  expect(late!.wasm).toBe(early!.wasm);
  expect(late!.heap).toBeLessThan(early!.heap + 1);
  expect(late!.arrays).toBeLessThan(early!.arrays + 1);
  expect(late!.resident).toBeLessThan(1.1 * early!.resident);
}

test('memory over 500 runs of the engine', async () => {
  const engine = await serve(folder);
  const toml = readFileSync(new URL('../src/start.toml', import.meta.url), 'utf8');
  await alone(engine.url, async (page) => {
    await page.waitForFunction(() => window.engine !== undefined);
    await grown('the engine', page, (count) =>
      page.evaluate(
        async ([text, number]) => {
          for (let run = 0; run < number; run += 1) await window.engine.run(text);
        },
        [toml, count] as const,
      ),
    );
  });
  engine.close();
});

test('memory over 500 runs of the page, drawn', async () => {
  await alone(server.url, async (page) => {
    await page.waitForSelector('.links .note');
    let place = 0;
    await grown('the page', page, async (count) => {
      for (let run = 0; run < count; run += 1) await answer(page, (place = place === 230 ? 290 : 230));
    });
  });
});
