// The web build's engine for tests/fuzz/web.py: a line of JSON {toml, most} in, a line {hash} or {refused} or {fault} out.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const folder = process.argv[2];
let wasm;
let panic = '';
globalThis.tailbackPanicked = (text) => (panic = text);

/** The engine, loaded again after a panic: its memory is not to be trusted then. */
async function load(times) {
  wasm = await import(`${pathToFileURL(`${folder}/tailback_web.js`)}?${times}`);
  wasm.initSync({ module: readFileSync(`${folder}/tailback_web_bg.wasm`) });
}

function answer({ toml, most }) {
  try {
    const run = new wasm.Run(toml, undefined, false);
    run.advance(most);
    return { hash: JSON.parse(run.finish().summary).hash };
  } catch (error) {
    if (typeof error !== 'string') return { fault: panic || String(error) };
    const { problems, fault } = JSON.parse(error);
    return problems ? { refused: problems.map((each) => `${each.path}: ${each.message}`) } : { fault };
  }
}

let times = 0;
await load(times);
for await (const line of createInterface({ input: process.stdin })) {
  const found = answer(JSON.parse(line));
  if (found.fault) await load((times += 1));
  panic = '';
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
