// The engine in a real browser: the same bytes as outside, progress, cancel, and faults explained in words.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Expected, FlowSummary, LinkSummary, Problem } from '../src/engine/index';
import { asked, discard, enginePage, held, launch, opened, serve, type Served } from './harness';

interface Native {
  toml: string;
  hash: string;
  events: number;
  flows: FlowSummary[];
  links: LinkSummary[];
}

const LONG = `
duration = "600s"
[dumbbell]
rate = "1gbit"
rtt = "20ms"
[[flow]]
name = "download"
`;
const SHORT = LONG.replace('600s', '2s').replace('1gbit', '10mbit');

let folder: string;
let server: Served;
let browser: Browser;
let page: Page;
let errors: string[];

beforeAll(async () => {
  folder = await enginePage();
  server = await serve(folder);
  browser = await launch();
  ({ page, errors } = await opened(browser, server.url));
  await page.waitForFunction(() => window.engine !== undefined);
});

afterAll(async () => {
  await browser?.close();
  server?.close();
  discard(folder);
});

describe('the same bytes as the native engine', () => {
  const cases = asked<Record<string, Native>>('runs');

  test.each(Object.entries(cases))('%s', async (_, native) => {
    const here = await page.evaluate(async (toml) => {
      const { hash, events, flows, links } = await window.engine.run(toml, { pictures: false });
      return { hash, events, flows, links };
    }, native.toml);
    expect(here.events).toBe(native.events);
    expect(here.hash).toBe(native.hash);
    near(here.flows, native.flows);
    near(here.links, native.links);
  });
});

/** Numbers agree to nine digits; what is not given is missing in one way or the other. */
function near(here: object[], there: object[]): void {
  expect(here.length).toBe(there.length);
  here.forEach((row, number) => {
    const other = there[number] as Record<string, unknown>;
    for (const key of new Set([...Object.keys(row), ...Object.keys(other)])) {
      const [mine, theirs] = [(row as Record<string, unknown>)[key] ?? NaN, other[key] ?? NaN];
      if (typeof mine === 'number' && typeof theirs === 'number' && !Number.isNaN(theirs)) {
        expect(Math.abs(mine - theirs), `${key}: ${mine} and ${theirs}`).toBeLessThanOrEqual(1e-9 * Math.abs(theirs) + 1e-9);
      } else expect(mine, key).toEqual(theirs);
    }
  });
}

test('a seed given beside the text is the seed of the run', async () => {
  const [given, written] = await page.evaluate(async (toml) => {
    const noisy = `${toml}\n[randomness]\nstart_spread = "1s"\n`;
    const one = await window.engine.run(noisy, { seed: 7 });
    const other = await window.engine.run(`seed = 7\n${noisy}`);
    const third = await window.engine.run(noisy, { seed: 8 });
    return [one.hash === other.hash, one.hash !== third.hash && one.toml.includes('seed = 7')];
  }, SHORT);
  expect([given, written]).toEqual([true, true]);
});

test('what ran is said in a file that gives the same again', async () => {
  const [first, again] = await page.evaluate(async (toml) => {
    const one = await window.engine.run(toml);
    const other = await window.engine.run(one.toml, { pictures: false });
    return [one.hash, other.hash];
  }, SHORT);
  expect(again).toBe(first);
});

test('a long run reports how far it is and what was polled, lets others ask beside, and ends when it is cancelled', async () => {
  const ended = await page.evaluate(async (toml) => {
    const stop = new AbortController();
    const seen: [number, number, number][] = [];
    let answered = NaN;
    let aborted = NaN;
    const ran = window.engine.run(toml, {
      signal: stop.signal,
      onProgress: (now, until, partial) => {
        seen.push([now, until, partial?.polls?.rows ?? 0]);
        if (seen.length === 3) {
          const asked = performance.now();
          void window.engine.normal(toml).then(() => (answered = performance.now() - asked));
        }
        if (seen.length === 6) {
          aborted = performance.now();
          stop.abort();
        }
      },
    });
    const name = await ran.then(() => 'finished', (error: Error) => error.name);
    return { seen, name, answered, after: performance.now() - aborted, restarts: window.engine.restarts };
  }, LONG);
  expect(ended.name).toBe('AbortError');
  expect(ended.after).toBeLessThan(1000);
  expect(ended.restarts).toBe(0);
  expect(ended.answered).toBeLessThan(1000);
  const [first, last] = [ended.seen[0]!, ended.seen.at(-1)!];
  expect(last[0]).toBeGreaterThan(first[0]);
  expect(last[1]).toBe(600);
  expect(last[2]).toBeGreaterThan(first[2]);
});

test('a page that draws slowly gets no more than it draws', async () => {
  const [updates, seconds] = await page.evaluate(async (toml) => {
    let updates = 0;
    const { wall_ms } = await window.engine.run(toml, {
      onProgress: () => {
        updates += 1;
        const began = performance.now();
        while (performance.now() - began < 400);
      },
    });
    return [updates, wall_ms / 1e3];
  }, LONG.replace('600s', '64s'));
  expect(seconds).toBeGreaterThan(0.2);
  expect(updates).toBeLessThanOrEqual(seconds / 0.4 + 1);
});

test('runs cancelled one after another leave the last its turn', async () => {
  const ended = await page.evaluate(async (toml) => {
    const runs = Array.from({ length: 8 }, () => {
      const stop = new AbortController();
      const run = window.engine.run(toml, { signal: stop.signal }).then(() => 'finished', (error: Error) => error.name);
      stop.abort();
      return run;
    });
    return [...(await Promise.all(runs)), (await window.engine.run(toml)).events > 0];
  }, SHORT);
  expect(ended).toEqual([...Array.from({ length: 8 }, () => 'AbortError'), true]);
});

/** What is wrong with a text that is refused. */
const refused = (toml: string): Promise<Problem[]> =>
  page.evaluate((text) => window.engine.run(text).then(() => [], (error) => error.problems), toml);

test('a wrong text is refused with places and fixes', async () => {
  const [problem, ...more] = await refused(SHORT.replace('name = "download"', 'name = "download"\ncc = "cubbic"'));
  expect([problem, more]).toMatchObject([{ path: 'flow[0].cc', line: 8, column: 6 }, []]);
  expect(problem!.fix).toContain('Did you mean "cubic"?');
  const syntax = await refused('duration = ');
  expect(syntax).toMatchObject([{ path: '', line: 1 }]);
  expect(syntax[0]!.message).toContain('is not TOML');
});

test('what the engine alone refuses has its place too', async () => {
  const problems = await refused(SHORT.replace('name = "download"', 'cc = { name = "cubic", beta = 7 }'));
  expect(problems).toMatchObject([{ path: expect.stringContaining('flow[0].cc'), line: 7 }]);
});

test('what a picture does not record is checked all the same', async () => {
  const problems = await refused(`${SHORT}\n[instruments]\nsegments = ["missing"]\n`);
  expect(problems).toMatchObject([{ path: 'instruments.segments[0]', line: 10 }]);
});

test('a file cannot be read here, and that is said', async () => {
  const problems = await refused(
    'duration = "1s"\n[[link]]\nname = "cell"\nfrom = "a"\nto = "b"\ntrace = "x.trace"\nduplex = true\n[[flow]]\nname = "download"\nfrom = "a"\nto = "b"\n',
  );
  expect(JSON.stringify(problems)).toContain('files cannot be read here');
});

test('texts and objects become one another', async () => {
  const [same, toml] = await page.evaluate(async (text) => {
    const first = await window.engine.normal(text);
    const again = await window.engine.normal(await window.engine.fromJson(first.json));
    return [JSON.stringify(first) === JSON.stringify(again), first.toml];
  }, SHORT);
  expect(same).toBe(true);
  expect(toml).toContain('[dumbbell]');
});

test('a run is judged by its beginning, and one that would record too much is refused', async () => {
  const [expected, name, refused] = await page.evaluate(async (toml) => {
    const much = `${toml}\n[instruments]\nsegments = "all"\npackets = "all"\n`;
    const large = await window.engine.run(toml, { most: { seconds: 2, rows: 1e9 } }).catch((error) => error);
    const said = await window.engine.run(much, { pictures: false }).catch((error) => error.message);
    return [large.expected as Expected, large.name as string, said as string] as const;
  }, LONG);
  expect(name).toBe('TooLarge');
  expect(expected.packets).toBeGreaterThan(40e6);
  expect(expected.seconds).toBeGreaterThan(2);
  expect(refused).toContain('rows');
});

test('a fast path that no flow fills is no long run', async () => {
  const events = await page.evaluate(
    (toml) => window.engine.run(toml, { most: { seconds: 20, rows: 1e9 } }).then((out) => out.events),
    LONG.replace('1gbit', '10gbit').replace('name = "download"', 'app = "transfers"'),
  );
  expect(events).toBeGreaterThan(100_000);
});

test('the catalogue and the schema are whole', async () => {
  const [counts, fields] = await page.evaluate(async () => {
    const all = await window.engine.catalogue();
    const schema = (await window.engine.schema()) as { json_schema: { properties: object } };
    return [Object.values(all).map((cards) => cards.length), Object.keys(schema.json_schema.properties)];
  });
  expect(counts.every((count) => count > 3)).toBe(true);
  expect(fields).toContain('dumbbell');
});

test('a drop and a reduction are explained with the numbers of the run', async () => {
  const [drop, reduction, nothing] = await page.evaluate(async (toml) => {
    const out = await window.engine.run(toml.replace('rtt = "20ms"', 'rtt = "20ms"\nqueue = "20p"').replace('2s', '5s'));
    const kinds = out.tables.congestion!.labels.kind!;
    const entered = (out.tables.congestion!.columns.kind as Uint8Array).indexOf(kinds.indexOf('recovery-entered'));
    return [
      await window.engine.why(undefined, { table: 'queue', row: 0 }),
      await window.engine.why(undefined, { table: 'congestion', row: entered }),
      await window.engine.why(undefined, { table: 'queue', row: 1e9 }).catch((error) => error.message),
    ];
  }, SHORT);
  expect(drop.facts).toMatchObject({ event: 'drop', reason: 'queue-full', flow: 'download', queue_holds_packets: 20 });
  expect(drop.formula).toContain('> limit 20 packets');
  expect(reduction.facts).toMatchObject({ event: 'recovery-entered', algorithm: 'CUBIC' });
  expect(reduction.formula).toMatch(/Here: ssthresh = \d+ B = 0\.\d+ × cwnd of \d+ B/);
  expect(reduction.source).toContain('RFC 9438');
  expect(Number(reduction.facts.srtt_ms)).toBeGreaterThan(20);
  expect(nothing).toContain('has no row');
});

test('a worker that was ended is reported in words, and the next call starts another', async () => {
  const seen = await page.evaluate(async ([long, short]) => {
    const engine = new window.Engine();
    const run = engine.run(long!).catch((error) => error.message);
    await engine.ready();
    engine.close();
    const said = await run;
    const after = await engine.run(short!);
    const restarts = engine.restarts;
    engine.close();
    return { said, events: after.events, restarts };
  }, [LONG, SHORT]);
  expect(seen.said).toBe('The engine was closed.');
  expect(seen.events).toBeGreaterThan(1000);
  expect(seen.restarts).toBe(1);
});

test('runs leave nothing behind, finished or cancelled', async () => {
  const { page: tab } = await opened(browser, server.url);
  const runs = (count: number) =>
    tab.evaluate(
      async ([long, short, times]) => {
        for (let run = 0; run < times; run += 1) {
          await window.engine.run(short);
          const stop = new AbortController();
          const onProgress = (): void => stop.abort();
          await window.engine.run(long, { signal: stop.signal, onProgress }).catch(() => undefined);
        }
      },
      [LONG, SHORT, count] as const,
    );
  await runs(8);
  const before = await held(tab);
  await runs(24);
  const after = await held(tab);
  // A finished run has 0.3 MB of rows, one that is under way more.
  expect(after.wasm).toBe(before.wasm);
  expect(after.arrays).toBeLessThan(before.arrays + 1);
  expect(after.heap).toBeLessThan(before.heap + 0.5);
  await tab.close();
});

test('a tab out of memory says so, and goes on', async () => {
  // 64 MB for WebAssembly: a real end of memory, soon.
  const small = await launch('--js-flags=--wasm-max-mem-pages=1024');
  try {
    const { page: tab } = await opened(small, server.url);
    const seen = await tab.evaluate(async ([long, short]) => {
      const much = `${long!.replace('600s', '60s')}\n[instruments]\nsegments = "all"\n`;
      const said = await window.engine.run(much, { pictures: false }).catch((error) => error.message);
      return { said, events: (await window.engine.run(short!)).events, restarts: window.engine.restarts };
    }, [LONG, SHORT]);
    expect(seen.said).toContain('more memory than the browser gives a tab');
    expect(seen.events).toBeGreaterThan(1000);
    expect(seen.restarts).toBe(1);
  } finally {
    await small.close();
  }
});

test('a module that does not come is reported in words, and asked for again', async () => {
  const tab = await browser.newPage();
  await tab.route('**/*.wasm', (route) => route.abort());
  await tab.goto(server.url);
  const said = await tab.evaluate(() => window.engine.ready().then(() => 'came', (error: Error) => error.message));
  expect(said).toContain('The engine could not be loaded');
  await tab.unroute('**/*.wasm');
  expect(await tab.evaluate(() => window.engine.ready().then(() => 'came'))).toBe('came');
  await tab.close();
});

test('nothing was logged as an error', () => {
  expect(errors).toEqual([]);
});
