// Runs beside the page's own: of the step before, of a step that the reader has changed, of an answer.

import { signal } from '@preact/signals';
import { Engine, type Outcome } from './engine';
import { figures } from './figures';

/** The figures of every scenario that was run for a tour. */
export const figuresOf = signal<Record<string, Record<string, number>>>({});

/** Rows are large: those of the last few are kept. */
const MOST_KEPT = 3;
const kept = new Map<string, Outcome>();
/** The page's own run can still be asked about meanwhile. */
let engine: Engine | undefined;
let turn: Promise<unknown> = Promise.resolve();

export function remember(toml: string, outcome: Outcome): void {
  kept.delete(toml);
  kept.set(toml, outcome);
  for (const [oldest] of kept) if (kept.size > MOST_KEPT) kept.delete(oldest);
  if (!figuresOf.peek()[toml]) figuresOf.value = { ...figuresOf.peek(), [toml]: figures(outcome) };
}

/** One after another; what is no longer wanted when its turn comes is not run. */
export function runBeside(toml: string, signal: AbortSignal): Promise<Outcome> {
  const run = async (): Promise<Outcome> => {
    signal.throwIfAborted();
    const before = kept.get(toml);
    if (before) return before;
    engine ??= new Engine();
    const outcome = await engine.run(toml, { signal });
    remember(toml, outcome);
    return outcome;
  };
  const mine = turn.then(run, run);
  turn = mine.catch(() => undefined);
  return mine;
}
