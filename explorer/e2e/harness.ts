// What the tests in a browser share: the system's Chromium, the server of `tailback explore`, and the native engine.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium, type Browser, type CDPSession, type Page } from 'playwright-core';
import { build } from 'vite';
import type { Engine } from '../src/engine/index';

declare global {
  interface Window {
    Engine: typeof Engine;
    engine: Engine;
  }
}

const here = import.meta.dirname;
export const root = resolve(here, '../..');
const native = join(here, 'native.py');
const site = join(root, 'python/tailback/explorer/site');

export const python = [process.env.PYTHON, join(root, '.venv/bin/python')].find((it) => it && existsSync(it)) ?? 'python3';

const browsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
export const executablePath = process.env.CHROMIUM ?? browsers.find((it) => existsSync(it));

/** Chromium as root, as in a container, has no sandbox of its own. */
export function launch(...flags: string[]): Promise<Browser> {
  if (!executablePath) throw new Error('There is no Chromium here: apt-get install chromium, or set CHROMIUM.');
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage', ...flags] });
}

/** What `native.py` prints, as JSON. */
export function asked<T>(...words: string[]): T {
  const text = execFileSync(python, [native, ...words], { maxBuffer: 1 << 28, encoding: 'utf8' });
  return JSON.parse(text) as T;
}

/** A page with nothing but the engine, built as the explorer is; its folder. */
export async function enginePage(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tailback-e2e-'));
  await build({
    root: join(here, 'engine'),
    base: './',
    configFile: false,
    logLevel: 'error',
    worker: { format: 'es' },
    build: { outDir: folder, target: 'es2022', emptyOutDir: true },
  });
  return folder;
}

/** The folder of the page as it was built. */
export function built(): string {
  if (!existsSync(join(site, 'index.html'))) throw new Error('The page is not built: make explorer');
  return site;
}

export interface Served {
  url: string;
  close(): void;
}

/** A server of a folder on the loopback address. */
export async function serve(folder: string, what?: string): Promise<Served> {
  const child: ChildProcess = spawn(python, [native, 'serve', folder, ...(what ? [what] : [])], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const url = await new Promise<string>((done, failed) => {
    child.stdout!.once('data', (data: Buffer) => done(data.toString().trim()));
    child.once('exit', (code) => failed(new Error(`the server ended with ${code}`)));
  });
  return {
    url,
    close() {
      child.removeAllListeners('exit');
      child.stdin!.end();
    },
  };
}

export function discard(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

/** A page that makes a test fail when it logs an error. */
export async function opened(browser: Browser, url: string): Promise<{ page: Page; errors: string[] }> {
  const page = await browser.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
  await page.goto(url);
  return { page, errors };
}

/** A file with the page's first scenario, a queue of one BDP in it, and its download there from the beginning. */
export function shortQueue(): string {
  const file = join(mkdtempSync(join(tmpdir(), 'tailback-e2e-')), 'home-link.toml');
  const start = readFileSync(join(here, '../src/start.toml'), 'utf8');
  writeFileSync(file, start.replace('queue = "10bdp"', 'queue = "1bdp"').replace('start = "5s"\n', ''));
  return file;
}

/** The page as `tailback explore` serves it with this file, once its first run is drawn. */
export async function explored(file?: string): Promise<{ page: Page; errors: string[]; close: () => Promise<void> }> {
  const server = await serve(built(), file);
  const browser = await launch();
  const { page, errors } = await opened(browser, server.url);
  await page.waitForSelector('[data-panel=queue] canvas');
  await page.waitForSelector('.links .note');
  return {
    page,
    errors,
    async close() {
      await browser.close();
      server.close();
    },
  };
}

/** Megabytes that a browser's pages and their workers hold. */
export interface Held {
  /** Objects of JavaScript. */
  heap: number;
  /** Typed arrays. */
  arrays: number;
  /** Memory of WebAssembly. */
  wasm: number;
  /** Resident memory of the page's process. */
  resident: number;
}

type Send = (method: string, parameters?: object) => Promise<never>;

/** What is held once what nothing holds any more is collected, in the page and in its worker: each has a heap of its own. */
export async function held(page: Page): Promise<Held> {
  const browser = await page.context().browser()!.newBrowserCDPSession();
  const devtools = await page.context().newCDPSession(page);
  const { targetInfos } = (await browser.send('Target.getTargets')) as { targetInfos: { type: string; targetId: string }[] };
  const workers = targetInfos.filter((it) => it.type === 'worker');
  const out: Held = { heap: 0, arrays: 0, wasm: 0, resident: 0 };
  const asked: Send[] = [(method, parameters) => devtools.send(method as never, parameters as never) as Promise<never>];
  for (const { targetId } of workers) asked.push(await toWorker(browser, targetId));
  for (const send of asked) {
    await send('HeapProfiler.collectGarbage');
    const usage = (await send('Runtime.getHeapUsage')) as { usedSize: number; backingStorageSize: number };
    out.heap += usage.usedSize / 1e6;
    out.arrays += usage.backingStorageSize / 1e6;
    out.wasm += (await memories(send)) / 1e6;
  }
  const { processInfo } = (await browser.send('SystemInfo.getProcessInfo')) as {
    processInfo: { type: string; id: number; cpuTime: number }[];
  };
  // Beside the page's there is one in reserve, which has done nothing.
  const [busiest] = processInfo.filter((it) => it.type === 'renderer').sort((a, b) => b.cpuTime - a.cpuTime);
  out.resident = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${busiest!.id}/status`, 'utf8'))![1]) / 1e3;
  await devtools.detach();
  await browser.detach();
  return out;
}

async function toWorker(browser: CDPSession, targetId: string): Promise<Send> {
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: false });
  const waiting = new Map<number, (result: never) => void>();
  browser.on('Target.receivedMessageFromTarget', (event: { sessionId: string; message: string }) => {
    const { id, result } = JSON.parse(event.message) as { id: number; result: never };
    if (event.sessionId === sessionId) waiting.get(id)?.(result);
  });
  let number = 0;
  return (method, parameters = {}) =>
    new Promise((done) => {
      number += 1;
      waiting.set(number, done);
      const message = JSON.stringify({ id: number, method, params: parameters });
      void browser.send('Target.sendMessageToTarget', { sessionId, message });
    });
}

/** Bytes of all memories of WebAssembly. */
async function memories(send: Send): Promise<number> {
  const { result } = (await send('Runtime.evaluate', { expression: 'WebAssembly.Memory.prototype' })) as {
    result: { objectId: string };
  };
  const { objects } = (await send('Runtime.queryObjects', { prototypeObjectId: result.objectId })) as {
    objects: { objectId: string };
  };
  const found = (await send('Runtime.callFunctionOn', {
    objectId: objects.objectId,
    functionDeclaration: 'function () { return this.reduce((sum, it) => sum + it.buffer.byteLength, 0); }',
    returnByValue: true,
  })) as { result: { value: number } };
  return found.result.value;
}
