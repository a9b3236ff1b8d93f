// What a newcomer sees first: the harm, what helps, what is taken away and what is given on.

import type { Browser, Page } from 'playwright-core';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { built, launch, opened, serve, type Served } from './harness';

let server: Served;
let browser: Browser;

beforeAll(async () => {
  server = await serve(built());
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  server?.close();
});

const worry = (page: Page, is: number) => page.waitForSelector(`.verdict[data-worry="${is}"]`);

test.each([[1280, 900], [390, 844]])('at %i px the harm and what helps stand on the first screen', async (width, height) => {
  const { page, errors } = await opened(browser, server.url);
  await page.setViewportSize({ width, height });
  await worry(page, 2);
  for (const place of ['.verdict', '[data-remedy=fq_codel]', '[data-remedy="1bdp"]']) {
    const box = (await page.locator(place).boundingBox())!;
    expect(box.y + box.height, place).toBeLessThan(height);
    expect(box.x + box.width, place).toBeLessThanOrEqual(width);
  }
  expect(errors).toEqual([]);
  await page.close();
});

test('a remedy makes the call good, and the run before stays beside it', async () => {
  const { page, errors } = await opened(browser, server.url);
  await worry(page, 2);
  await page.click('[data-remedy=fq_codel]');
  await worry(page, 0);
  expect(await page.locator('.verdict').innerText()).toContain('Good: call');
  expect(await page.locator('.card[data-flow=call] .was').innerText()).toMatch(/run 1: MOS [23]/);
  await page.click('button[aria-label=Undo]');
  await worry(page, 2);
  expect(errors).toEqual([]);
  await page.close();
});

test('the slider of the queue helps too', async () => {
  const { page, errors } = await opened(browser, server.url);
  await worry(page, 2);
  await page.locator('[data-slider=queue]').evaluate((slider: HTMLInputElement) => {
    slider.value = slider.min;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
  });
  await worry(page, 0);
  expect(errors).toEqual([]);
  await page.close();
});

test('a picture carries scenario, parameters and verdict', async () => {
  const { page, errors } = await opened(browser, server.url);
  await worry(page, 2);
  await page.click('text=Take away');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('text=Picture (SVG)')]);
  const drawing = readFileSync(await download.path(), 'utf8');
  for (const text of ['home-link', 'Download starts at 5 s and gets', 'Call suffers: MOS', '10 Mbit/s, 80 ms; 60 s simulated; seed 1', 'bottleneck: 10 Mbit/s, fifo'])
    expect(drawing.includes(text), text).toBe(true);
  expect(errors).toEqual([]);
  await page.close();
});

test('Share copies text that works for others', async () => {
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  await page.goto(server.url);
  await worry(page, 2);
  await page.click('[data-do=share]');
  await page.waitForSelector('.notice');
  const copied = () => page.evaluate(() => navigator.clipboard.readText());
  expect(await copied()).toContain('tailback explore home-link.toml');
  expect(await copied()).not.toContain('127.0.0.1');
  // A server that knows of a hosted page says so in a meta element.
  await page.evaluate(() =>
    document.head.insertAdjacentHTML('beforeend', '<meta name="tailback-hosted" content="https://example.org/explorer/">'),
  );
  await page.click('[data-do=share]');
  await page.waitForFunction(() => document.querySelector('.notice')?.textContent?.includes('example.org'));
  expect(await copied()).toMatch(/^https:\/\/example\.org\/explorer\/#s=/);
  await context.close();
});
