// The palette of the project's figures: Okabe and Ito's, which colour-blind people can distinguish.

import { theme } from './theme';

const [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, SOFT] = [
  '#0072B2',
  '#D55E00',
  '#009E73',
  '#CC79A7',
  '#E69F00',
  '#56B4E9',
  '#767676',
];
/** Of the palette what stands out from the paper by 3 to 1, as lines must. */
export const CYCLES = {
  light: [BLUE, VERMILION, GREEN, PURPLE, SOFT],
  dark: [SKY, VERMILION, GREEN, PURPLE, ORANGE, BLUE],
};
/** Beyond the palette the stroke distinguishes lines. */
const DASHES: (number[] | undefined)[] = [undefined, [7, 4], [2, 3]];

export interface Stroke {
  colour: string;
  dash?: number[];
}

export function stroke(index: number): Stroke {
  const cycle = CYCLES[theme.value];
  return { colour: cycle[index % cycle.length]!, dash: DASHES[Math.floor(index / cycle.length) % DASHES.length] };
}

/** The first link is drawn in the colour of text, which no flow has. The others differ from it in colour and dashes. */
export const linkStroke = (rank: number, ink: string): Stroke =>
  rank === 0 ? { colour: ink } : { colour: [GREEN, PURPLE, VERMILION][(rank - 1) % 3]!, dash: [9, 4] };
