// What the page shows of one moment: why a packet was dropped, single packets, pinned runs, the keyboard alone.

import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { explored, shortQueue } from './harness';

let page: Page;
let errors: string[];

beforeAll(async () => {
  const found = await explored(shortQueue());
  ({ page, errors } = found);
  return found.close;
});

const why = () => page.locator('.why').innerText();

test('the first drop is found with the keys, and explained with what the queue held', async () => {
  await page.focus('[data-panel=queue] .plot');
  await page.keyboard.press('n');
  await page.locator('.why .formula').waitFor();
  expect(await why()).toMatch(/queue-full/);
  expect(await why()).toMatch(/held \+ packet = \d+ B \+ \d+ B = \d+ B > limit 100000 B/);
  await page.keyboard.press('Escape');
  await page.waitForSelector('.why', { state: 'detached' });
});

test('a reduction is asked about with a click, and its neighbours with the arrows', async () => {
  const plot = page.locator('[data-panel=window] .u-over');
  await plot.scrollIntoViewIfNeeded();
  const box = (await plot.boundingBox())!;
  // The first one lies in the first second; the pointer says when it is there.
  search: for (let x = 1; x < box.width / 10; x += 4) {
    for (let y = 2; y < box.height / 2; y += 6) {
      await page.mouse.move(box.x + x, box.y + y);
      if ((await plot.evaluate((it) => (it as HTMLElement).style.cursor)) !== 'pointer') continue;
      await page.mouse.click(box.x + x, box.y + y);
      break search;
    }
  }
  await page.locator('.why .formula').waitFor();
  expect(await why()).toMatch(/Here: ssthresh = \d+ B = 0\.\d+ × cwnd of \d+ B/);
  expect(await why()).toContain('RFC 9438');
  const first = await page.locator('.why h2').innerText();
  await page.click('[aria-label="The event after"]');
  await page.waitForFunction((old) => document.querySelector('.why h2')?.textContent !== old, first);
});

test('single packets around the event are drawn, those sent again among them', async () => {
  await page.click('[data-do=packets]');
  await page.locator('.packets .plot canvas').waitFor();
  await page.click('.packets button:has-text("around the chosen event")');
  const label = () => page.locator('.packets .plot').getAttribute('aria-label');
  await expect.poll(label, { timeout: 20_000 }).toMatch(/^[1-9]\d+ segments sent, [1-9]\d* of them again/);
});

test('the keys zoom, move, and show all again', async () => {
  const range = () => page.locator('.toolbar').innerText();
  await page.focus('[data-panel=window] .plot');
  await page.keyboard.press('0');
  await expect.poll(range).toContain('Drag over a plot');
  await page.keyboard.press('+');
  await expect.poll(range).toContain('15 to 45 s');
  await page.keyboard.press('ArrowRight');
  await expect.poll(range).toContain('22.5 to 52.5 s');
  await page.keyboard.press('0');
});

test('a pinned run is drawn beside the next, and its figures stand below theirs', async () => {
  const before = await page.locator('[data-flow=call] .figure').innerText();
  await page.click('[data-do=pin]');
  await page.selectOption('[data-choice=queue]', 'fq_codel');
  await page.waitForFunction(() => document.querySelector('.links .note') && !document.querySelector('.run-status progress'));
  expect(await page.locator('[data-flow=call] .was').innerText()).toContain(before);
  const legend = page.locator('[data-panel=queue] .u-legend');
  await expect.poll(() => legend.innerText()).toContain('bottleneck · run 1');
});

test('nothing went wrong unseen', () => {
  expect(errors).toEqual([]);
});
