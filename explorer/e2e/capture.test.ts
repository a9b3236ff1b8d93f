// A packet capture that is dropped on the page: read here, drawn as a stored result is, and sent nowhere.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { datagrams } from '../tests/pcap';
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

test('a dropped capture is drawn, nothing is uploaded, and a step back leads to the scenario', async () => {
  const { page, errors } = await opened(browser, server.url);
  await page.waitForSelector('.charts canvas, .charts svg');
  const sent: string[] = [];
  page.on('request', (request) => request.postData() !== null && sent.push(request.url()));
  await page.evaluate((bytes) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([new Uint8Array(bytes)], 'phone.pcap'));
    window.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, Array.from(datagrams(101)));
  await page.waitForSelector('.stored');
  expect(await page.locator('.stored').innerText()).toContain('phone.pcap: captured, 101 packets');
  expect(await page.locator('.card[data-flow]').count()).toBe(1);
  expect(await page.locator('.results').innerText()).toContain('10.0.0.1:4000>10.0.0.2:5000/udp');
  expect(sent).toEqual([]);
  await page.keyboard.press('Control+z');
  await page.waitForFunction(() => document.querySelector('.stored') === null);
  await page.waitForFunction(() => document.querySelectorAll('.card[data-flow]').length > 1);
  expect(errors).toEqual([]);
  await page.close();
});

test('what is no capture is refused in words', async () => {
  const { page } = await opened(browser, server.url);
  await page.waitForSelector('.charts canvas, .charts svg');
  const place = join(mkdtempSync(join(tmpdir(), 'tailback-')), 'cut.pcap.gz');
  writeFileSync(place, new Uint8Array([0x1f, 0x8b, 8, 0, 0]));
  await page.setInputFiles('input[type=file]', place);
  await page.waitForFunction(() => document.body.innerText.includes('cut.pcap.gz cannot be read'));
  await page.close();
});
