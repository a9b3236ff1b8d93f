// What a reader meets who takes a tour and plays with it: numbers that stay true, words that are explained, ways back.

import type { Page } from 'playwright-core';
import { beforeAll, expect, test } from 'vitest';
import { explored } from './harness';

let page: Page;
let errors: string[];

beforeAll(async () => {
  const found = await explored();
  ({ page, errors } = found);
  return found.close;
});

const focused = () => page.evaluate(() => document.activeElement?.id ?? '');
const onward = async (step: number) => {
  await page.click('[data-do=next]');
  await page.waitForFunction((number) => document.querySelector('.tour .note')?.textContent === `${number} of 5`, step);
};

test('the menu closes by its own button, Escape, and a click elsewhere', async () => {
  const isOpen = () => page.locator('.menu').evaluate((it) => (it as HTMLDetailsElement).open);
  for (const close of [
    () => page.click('.menu summary'),
    () => page.keyboard.press('Escape'),
    () => page.click('h1'),
  ]) {
    await page.click('.menu summary');
    expect(await isOpen()).toBe(true);
    await close();
    await expect.poll(isOpen).toBe(false);
  }
});

test('undo goes one change back after a reload, too', async () => {
  const chosen = () => page.locator('[data-choice=cc]').first().inputValue();
  await page.locator('[data-choice=cc]').first().selectOption('reno');
  await page.waitForTimeout(1000);
  await page.locator('[data-choice=cc]').first().selectOption('htcp');
  await page.waitForTimeout(1000);
  await page.reload();
  await expect.poll(chosen).toBe('htcp');
  await page.click('button[aria-label=Undo]');
  await expect.poll(chosen).toBe('reno');
  await page.click('button[aria-label=Undo]');
  await expect.poll(chosen).toBe('cubic');
});

test('a tour takes the focus, and a word is explained where the keys are', async () => {
  await page.click('[data-do=first-tour]');
  await expect.poll(focused).toBe('tour-title');
  await onward(2);
  await page.locator('.tour [data-term=quantile]').focus();
  expect(await page.locator('.help').innerText()).toContain('one in twenty');
  await page.keyboard.press('Escape');
  await page.waitForSelector('.help', { state: 'detached' });
});

test("a step keeps its numbers when the reader changes something, and the reader's own stand beside them", async () => {
  await onward(3);
  const number = page.locator('.tour .text .number').first();
  await expect.poll(() => number.innerText()).toMatch(/^\d{3}$/);
  const said = await number.innerText();
  await page.selectOption('[data-choice=queue]', 'fq_codel');
  const own = page.locator('.yours dd').first();
  await own.waitFor();
  expect(await number.innerText()).toBe(said);
  expect(Number.parseFloat(await own.innerText())).toBeLessThan(Number(said) / 5);
  await page.click('[data-do=back-to-step]');
  await page.waitForSelector('.yours', { state: 'detached' });
});

test('the last step has an answer with numbers, and the next tour', async () => {
  await onward(4);
  expect(await page.locator('.pins').innerText()).toContain('A download starts');
  await onward(5);
  await page.click('[data-do=start]');
  await expect.poll(() => page.locator('[data-choice=bytes]').isChecked()).toBe(true);
  await page.click('.question summary');
  await expect.poll(() => page.locator('.question .number').allInnerTexts(), { timeout: 20_000 }).not.toContain('…');
  expect(await page.locator('[data-do=next-tour]').innerText()).toContain('Slow start');
});

test('an event is explained in sight on a phone, on top of the tour, with the figures below the hand', async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.locator('[data-panel=queue] .plot').focus();
  await page.keyboard.press('n');
  const why = page.locator('.why h2');
  await why.waitFor();
  const box = (await why.boundingBox())!;
  expect(box.y + box.height).toBeLessThan(740);
  expect(await why.evaluate((it) => it.contains(document.elementFromPoint(it.getBoundingClientRect().x + 5, it.getBoundingClientRect().y + 5)))).toBe(true);
  expect(await page.locator('.strip').isVisible()).toBe(true);
  await page.keyboard.press('Escape');
  await page.setViewportSize({ width: 1280, height: 900 });
});

test('Escape ends the tour, and the earlier scenario is offered', async () => {
  await page.locator('#tour-title').focus();
  await page.keyboard.press('Escape');
  await page.waitForSelector('.tour', { state: 'detached' });
  expect(await page.evaluate(() => (document.activeElement as HTMLElement).dataset.do)).toBe('tours');
  await page.click('[data-do=offer]');
  await expect.poll(() => page.locator('.card[data-flow]').count()).toBe(3);
});

test('many flows alike are one card, and their number can be set', async () => {
  await page.locator('[data-count=download]').fill('5');
  await page.keyboard.press('Tab');
  await expect.poll(() => page.locator('[data-flow=download]').innerText()).toMatch(/download, 5 times[^]*together/);
  expect(await page.locator('.card[data-flow]').count()).toBe(3);
});

test('what was stopped is shown, and can be run again', async () => {
  // From within: on a fast machine the run is over before a click from outside arrives.
  await page.evaluate(() => {
    const press = (): void => {
      const stop = [...document.querySelectorAll<HTMLElement>('.run-status button')].find((it) => it.textContent === 'Stop');
      if (stop) stop.click();
      else requestAnimationFrame(press);
    };
    // Ten minutes of some 130 Mbit/s: seconds of work for any machine.
    for (const [name, place] of [['rate', '250'], ['duration', '400']]) {
      const slider = document.querySelector<HTMLInputElement>(`[data-slider=${name}]`)!;
      slider.value = place!;
      slider.dispatchEvent(new Event('input', { bubbles: true }));
    }
    press();
  });
  await page.waitForSelector('.run-status:has-text("Stopped")');
  await page.click('.run-status button:has-text("Run again")');
  await page.waitForSelector('.run-status:has-text("Stopped")', { state: 'detached' });
});

test('nothing went wrong unseen', () => {
  expect(errors).toEqual([]);
});
