// What the tests in a browser share: the system's Chromium, the server of `tailback explore`, and the native engine.

import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium, type Browser, type Page } from 'playwright-core';
import { build } from 'vite';
import type { Engine } from '../src/engine/index';

declare global {
  interface Window {
    Engine: typeof Engine;
    engine: Engine;
  }
}

const here = import.meta.dirname;
const root = resolve(here, '../..');
const native = join(here, 'native.py');
export const site = join(root, 'python/tailback/explorer/site');

const python = [process.env.PYTHON, join(root, '.venv/bin/python')].find((it) => it && existsSync(it)) ?? 'python3';

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
