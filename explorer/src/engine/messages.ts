// What the page and the engine's worker say to each other.

import type { Problem, Table } from './index';

export type Ask = { id: number } & (
  | { do: 'ready' }
  | { do: 'check' | 'normal' | 'estimate'; toml: string }
  | { do: 'fromJson'; json: string }
  | { do: 'schema' | 'catalogue' }
  | { do: 'run'; toml: string; seed?: number; pictures: boolean; polls: boolean }
  | { do: 'cancel' }
  | { do: 'why'; asked: string }
);

export type Answer = { id: number } & (
  | { value: unknown }
  | { progress: { now_s: number; until_s: number; polled?: Record<string, Table> } }
  | { problems: Problem[] }
  | { cancelled: true }
  | { fault: string; isBroken: boolean }
);
