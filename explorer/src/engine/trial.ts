// How long a run will take, by how long its beginning took: how busy a path will be is not known before.

/** So much of a run is tried before it may go on, */
export const TRIAL_MS = 500;
/** and so much before it is ended: at first the engine itself is slow, until the browser has compiled it well. */
export const LONGEST_TRIAL_MS = 1500;

export interface Moment {
  /** Since the run began, */
  ms: number;
  /** and how far it was then. */
  simulated_s: number;
}

/** Seconds for all of it, by the second half of what was tried: at first flows are still growing. */
export function expectedSeconds(tried: readonly Moment[], until_s: number): number {
  const last = tried[tried.length - 1]!;
  const half = tried.filter((it) => it.ms <= last.ms / 2).at(-1) ?? { ms: 0, simulated_s: 0 };
  const pace = (last.ms - half.ms) / Math.max(last.simulated_s - half.simulated_s, 1e-9);
  return (last.ms + pace * (until_s - last.simulated_s)) / 1e3;
}
