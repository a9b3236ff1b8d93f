// The page as `tailback explore` serves it: a path is drawn, sliders moved, states shared, errors shown, results opened.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { asked, built, discard, launch, opened, serve, type Served } from './harness';

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

/** What the page says below its table: another run has another. */
const events = (page: Page) => page.locator('.links .note').innerText();
const answered = (page: Page, before?: string) =>
  page.waitForFunction((old) => {
    const now = document.querySelector<HTMLElement>('.links .note')?.innerText;
    return now !== undefined && now !== old && !document.querySelector('.run-status progress');
  }, before);

/** The page, its first run drawn; a test's last line asks that nothing was logged as an error. */
async function begun(url = server.url): Promise<{ page: Page; errors: string[] }> {
  const found = await opened(browser, url);
  await found.page.waitForSelector('.charts canvas, .charts svg');
  await answered(found.page);
  return found;
}

const textOf = async (page: Page): Promise<string> => {
  if (!(await page.locator('.cm-content').isVisible())) await page.click('[data-do=text]');
  return page.locator('.cm-content').innerText();
};

test('the page opens with a run, its plots and what each user feels', async () => {
  const { page, errors } = await begun();
  expect(await page.locator('.card[data-flow]').count()).toBeGreaterThan(1);
  expect(await page.locator('.charts canvas, .charts svg').count()).toBeGreaterThan(1);
  expect(errors).toEqual([]);
  await page.close();
});

test('a slider moves the path, the plots and the text', async () => {
  const { page, errors } = await begun();
  const before = await events(page);
  await page.locator('[data-slider=rtt]').evaluate((slider: HTMLInputElement) => {
    slider.value = '300';
    slider.dispatchEvent(new Event('input', { bubbles: true }));
  });
  await answered(page, before);
  expect(await textOf(page)).not.toContain('rtt = "80ms"');
  expect(errors).toEqual([]);
  await page.close();
});

test('the path is drawn with the mouse and with the keys', async () => {
  const { page, errors } = await begun();
  const handle = page.locator('[data-handle=rtt]');
  const value = () => handle.getAttribute('aria-valuenow').then(Number);
  const before = await value();
  const box = (await handle.boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 - 25, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  await expect.poll(value, { timeout: 20_000 }).toBeLessThan(before - 20);
  // The drawing follows the runs: until the last of them is there it still moves.
  let dragged = NaN;
  for (let now = await value(); now !== dragged; now = await value()) {
    dragged = now;
    await page.waitForTimeout(700);
  }
  await handle.focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(value, { timeout: 20_000 }).toBeGreaterThan(dragged);
  expect(errors).toEqual([]);
  await page.close();
});

test('a flow is added, feels something, and is taken back', async () => {
  const { page, errors } = await begun();
  const cards = page.locator('.card[data-flow]');
  const [count, before] = [await cards.count(), await events(page)];
  await page.click('[data-add=voip]');
  await answered(page, before);
  expect(await cards.count()).toBe(count + 1);
  const more = await events(page);
  await page.click('button[aria-label=Undo]');
  await answered(page, more);
  expect(await cards.count()).toBe(count);
  expect(errors).toEqual([]);
  await page.close();
});

test('the address is the state: another tab opens the same', async () => {
  const { page } = await begun();
  const before = await events(page);
  await page.click('[data-add=ping]');
  await answered(page, before);
  await page.waitForFunction((old) => location.hash.length > 3 && location.hash !== old, '');
  await page.waitForTimeout(900);
  const { page: other, errors } = await begun(page.url());
  const said = (text: string) => text.split(' events')[0];
  expect(said(await events(other))).toBe(said(await events(page)));
  expect(await textOf(other)).toBe(await textOf(page));
  expect(errors).toEqual([]);
  await page.close();
  await other.close();
});

test.each(['s=%%%', 's=AAAA', 's=' + 'q'.repeat(50)])('a broken address (%s) is explained in words, and the page goes on', async (fragment) => {
  const { page, errors } = await begun(`${server.url}#${fragment}`);
  expect(await page.locator('.notice').innerText()).toMatch(/damaged[^]*What you see is the example/);
  expect(await page.locator('.card[data-flow]').count()).toBeGreaterThan(0);
  expect(errors).toEqual([]);
  await page.close();
});

test('a wrong text is shown with its line, and what was drawn stays', async () => {
  const { page, errors } = await begun();
  const before = await events(page);
  await page.click('[data-do=text]');
  await page.click('.cm-content');
  await page.keyboard.press('Control+End');
  // At once: half of it would be a scenario of its own, and run.
  await page.keyboard.insertText('\n[[flow]]\nname = "odd"\ncc = "cubbic"\n');
  const problem = page.locator('.problems li', { hasText: 'Did you mean "cubic"?' });
  await problem.waitFor();
  expect(await problem.innerText()).toMatch(/line \d+: flow\[\d\]\.cc/);
  expect(await events(page)).toBe(before);
  // Where the format is the matter its description opens in place.
  await page.keyboard.insertText('\n= 3\n');
  await page.click('.problems button:has-text("docs/scenario.md")');
  expect(await page.locator('.problems .page').innerText()).toContain('[dumbbell]');
  expect(errors).toEqual([]);
  await page.close();
});

test('a tour goes through its five steps, with numbers of the run beside it', async () => {
  const { page, errors } = await begun();
  await page.click('[data-do=tours]');
  const tours = await page.locator('[data-tour]').evaluateAll((all) => all.map((it) => (it as HTMLElement).dataset.tour!));
  expect(tours.length).toBeGreaterThanOrEqual(8);
  await page.click(`[data-tour=${tours[0]}]`);
  for (let step = 1; step <= 5; step += 1) {
    await page.waitForFunction((number) => document.querySelector('.tour .note')?.textContent === `${number} of 5`, step);
    await page.locator('.tour .number').first().waitFor();
    expect(await page.locator('.tour .text').innerText()).toMatch(/[.?]$/m);
    if (step < 5) await page.click('[data-do=next]');
  }
  expect(await page.locator('.tour .question').innerText()).toContain('To try:');
  expect(errors).toEqual([]);
  await page.close();
});

test('what is too long is judged by its beginning, and a shorter one offered', async () => {
  const { page, errors } = await begun();
  // Twenty that fill ten gigabits a second for ten minutes.
  await page.locator('[data-count=download]').fill('20');
  await page.keyboard.press('Tab');
  for (const name of ['duration', 'rate'])
    await page.locator(`[data-slider=${name}]`).evaluate((slider: HTMLInputElement) => {
      slider.value = '400';
      slider.dispatchEvent(new Event('input', { bubbles: true }));
    });
  await page.waitForSelector('.run-status.warning');
  expect(await page.locator('.run-status.warning').innerText()).toMatch(/packets.*Run only/s);
  await page.click('.run-status.warning button.primary');
  await page.waitForSelector('.run-status.warning', { state: 'detached' });
  expect(errors).toEqual([]);
  await page.close();
});

test('a stored result is shown with its own rows, a live one where the machine can make it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tailback-stored-'));
  const made = asked<{ engine: string; hash: string; flows: string[] }>('stored', join(folder, 'kept'));
  const served = await serve(built(), join(folder, 'kept'));
  const { page, errors } = await opened(browser, served.url);
  await page.waitForSelector('.stored');
  expect(await page.locator('.stored').innerText()).toContain(`kept: ${made.engine}`);
  await page.waitForSelector('.charts canvas, .charts svg');
  const shown = await page.locator('.card[data-flow]').evaluateAll((cards) => cards.map((card) => (card as HTMLElement).dataset.flow));
  expect(shown).toEqual(made.flows);
  expect(errors).toEqual([]);
  await page.close();
  served.close();
  discard(folder);
});
