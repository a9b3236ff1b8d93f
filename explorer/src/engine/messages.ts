// What the page and the engine's worker say to each other.

import type { Expected, Problem, RunOptions, Table } from './index';

export type Ask = { id: number } & (
  | { do: 'ready' }
  | { do: 'normal'; toml: string }
  | { do: 'fromJson'; json: string }
  | { do: 'schema' | 'catalogue' }
  | { do: 'run'; toml: string; pictures: boolean; polls: boolean } & Pick<RunOptions, 'seed' | 'most' | 'pollsAfterMs'>
  | { do: 'cancel' }
  | { do: 'heard' }
  | { do: 'why'; asked: string }
  | { do: 'capture'; bytes: Uint8Array; name: string }
);

export type Answer = { id: number } & (
  | { value: unknown }
  | { progress: { now_s: number; until_s: number; polled?: Record<string, Table> } }
  | { problems: Problem[] }
  | { large: Expected }
  | { cancelled: true }
  | { fault: string; isBroken: boolean }
);
