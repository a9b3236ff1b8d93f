// Drawing in turns: what does not fit into one frame waits for the next, so that a slider never waits for plots.

const BUDGET_MS = 7;
const waiting = new Map<object, () => void>();
let isAsked = false;

/** Draw when there is time; a later drawing of the same thing takes the place of one that waits. */
export function inTurn(what: object, draw: () => void): void {
  waiting.set(what, draw);
  ask();
}

function ask(): void {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    const began = performance.now();
    for (const [what, draw] of waiting) {
      waiting.delete(what);
      draw();
      if (performance.now() - began > BUDGET_MS) break;
    }
    if (waiting.size) ask();
  });
}
