// The palette of the project's figures: Okabe and Ito's, which colour-blind people tell apart.

const CYCLE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
/** Beyond the palette the stroke tells lines apart. */
const DASHES: (number[] | undefined)[] = [undefined, [7, 4], [2, 3]];

export interface Stroke {
  colour: string;
  dash?: number[];
}

export const stroke = (index: number): Stroke => ({
  colour: CYCLE[index % CYCLE.length]!,
  dash: DASHES[Math.floor(index / CYCLE.length) % DASHES.length],
});

/** Links are drawn in the colour of text: they are nobody's. */
const LINKS: (number[] | undefined)[] = [undefined, [9, 4], [4, 4], [2, 3]];
export const linkStroke = (index: number, ink: string): Stroke => ({ colour: ink, dash: LINKS[index % LINKS.length] });
