// A slider over orders of magnitude, with its value in words and as text that can be typed.

import { useId } from 'preact/hooks';
import type { Name } from '../glossary';
import { Help } from './help';

export interface Scale {
  low: number;
  high: number;
  /** Down to here steps are proportional; below lies zero alone. */
  zero?: boolean;
}

const STEPS = 400;

export const toPlace = ({ low, high, zero }: Scale, value: number): number => {
  if (zero && value < low) return 0;
  const place = Math.log(Math.min(Math.max(value, low), high) / low) / Math.log(high / low);
  return zero ? 1 + place * (STEPS - 1) : place * STEPS;
};

export const fromPlace = ({ low, high, zero }: Scale, place: number): number => {
  if (zero && place < 0.5) return 0;
  const share = zero ? (place - 1) / (STEPS - 1) : place / STEPS;
  return Number((low * (high / low) ** Math.min(1, Math.max(0, share))).toPrecision(2));
};

interface Given {
  label: string;
  value: number;
  scale: Scale;
  words: string;
  onInput: (value: number) => void;
  hint?: string;
  /** What explains the label. */
  term?: Name;
  name?: string;
}

export function Slider({ label, value, scale, words, onInput, hint, term, name }: Given) {
  const id = useId();
  return (
    <div class="slider">
      <span class="label">
        <label for={id} title={hint}>
          {label}
        </label>
        {term && (
          <>
            {' '}
            <Help term={term}>?</Help>
          </>
        )}
      </span>
      <output for={id}>{words}</output>
      <input
        id={id}
        type="range"
        min={0}
        max={STEPS}
        step={1}
        value={toPlace(scale, value)}
        aria-valuetext={words}
        data-slider={name}
        onInput={(event) => onInput(fromPlace(scale, Number(event.currentTarget.value)))}
      />
    </div>
  );
}
