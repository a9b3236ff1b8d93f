// The engine without a browser: the same module that the page loads.

import { readFileSync } from 'node:fs';
import { withNaN } from '../src/engine/opened';
import type { FlowSummary, LinkSummary, Outcome, Table } from '../src/engine';
import * as wasm from '../src/engine/wasm/tailback_web.js';

wasm.initSync({ module: readFileSync(new URL('../src/engine/wasm/tailback_web_bg.wasm', import.meta.url)) });

export function run(toml: string): Outcome {
  const run = new wasm.Run(toml, undefined, true);
  while (!run.advance(1_000_000));
  return whole(run.finish());
}

export const captured = (bytes: Uint8Array, name: string): Outcome => whole(wasm.capture(bytes, name));

function whole(found: unknown): Outcome {
  const { summary, tables } = found as { summary: string; tables: Record<string, Table> };
  const rest = JSON.parse(summary) as Outcome;
  return {
    ...rest,
    flows: rest.flows.map(withNaN<FlowSummary>),
    links: rest.links.map(withNaN<LinkSummary>),
    tables,
    wall_ms: 0,
  };
}

export { wasm };
