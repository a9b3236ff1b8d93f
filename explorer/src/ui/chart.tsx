// One plot of a stack with a common time axis: zoom by dragging, linked cursors, events that can be asked about.

import { useEffect, useRef } from 'preact/hooks';
import { useSignalEffect } from '@preact/signals';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { linkStroke, stroke, type Stroke } from '../colours';
import { digits } from '../quantity';
import { signs, type Line, type Mark, type Panel } from '../series';
import { chosen, duration, isOwnScale, zoom } from '../state';
import { inTurn } from './frame';
import { Help } from './help';

export interface Drawn extends Panel {
  /** The same panel of pinned runs. */
  pinned: { name: string; lines: Line[] }[];
}

/** Heights and letters grow with the page's letters, as the style sheet sets them for wide screens. */
export const rem = (): number =>
  (letter ??= parseFloat(getComputedStyle(document.documentElement).fontSize) || 16);
/** Height of a letter in pixels, read again after a resize. It is kept because reading it forces a layout. */
let letter: number | undefined;
addEventListener('resize', () => (letter = undefined));
const height = (): number => Math.round(12 * rem());
/** Signs and strokes too: those of a usual screen, times this. */
const thick = (): number => rem() / 16;
/** How near a click has to be to an event. */
const REACH_PX = 14;
/** A plot so near to what is in sight is kept as new as if it were there. */
const NEAR = '100px';
/** From here on a movement with the button down is a drag. */
const DRAG_PX = 4;

interface Colours {
  ink: string;
  soft: string;
  grid: string;
  paper: string;
}

export function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  return { ink: of('--ink'), soft: of('--soft'), grid: of('--grid'), paper: of('--paper') };
}

/** Dots for a level, short dashes for a pinned run. */
const LEVEL = [2, 4];

export function strokeOf(line: Line, order: readonly string[], ink: string): Stroke {
  if (line.level) return { colour: ink, dash: LEVEL };
  return line.rank === undefined ? stroke(Math.max(0, order.indexOf(line.key))) : linkStroke(line.rank, ink);
}

type Values = (number | null)[] | uPlot.TypedArray;
const isTyped = (values: ArrayLike<number>): values is uPlot.TypedArray => ArrayBuffer.isView(values);

/** A missing value is null there; numbers without one stay the array that they are. */
function holes(values: ArrayLike<number>): Values {
  let at = 0;
  while (at < values.length && Number.isFinite(values[at])) at++;
  if (at === values.length && isTyped(values)) return values;
  return Array.from(values, (value) => (Number.isFinite(value) ? value : null));
}

/** All lines on one axis. Where a line has no value of its own nothing breaks it. */
export function aligned(lines: readonly Line[]): uPlot.AlignedData {
  const first = lines[0];
  if (!first) return [[]];
  const isSame = lines.every(
    (line) =>
      line.level ||
      (line.x.length === first.x.length &&
        line.x[0] === first.x[0] &&
        line.x[line.x.length - 1] === first.x[first.x.length - 1]),
  );
  if (isSame) {
    const values = (line: Line): Values => (line.level ? new Float64Array(first.x.length).fill(line.y[0]!) : holes(line.y));
    return [isTyped(first.x) ? first.x : Array.from(first.x), ...lines.map(values)] as uPlot.AlignedData;
  }
  return uPlot.join(lines.map((line) => [increasing(line), holes(line.y)] as uPlot.AlignedData));
}

/** Times that a join can take: two at the same instant are a hair apart. */
function increasing(line: Line): number[] {
  const out = Array.from(line.x);
  for (let at = 1; at < out.length; at++) if (out[at]! <= out[at - 1]!) out[at] = out[at - 1]! + 1e-9;
  return out;
}

/** What an axis reaches at least: below it there is nothing worth a look. */
const LEAST: Partial<Record<Panel['id'], number>> = { queue: 1 };

interface Given {
  panel: Drawn;
  order: readonly string[];
  theme: string;
  /** The step of a tour is about it. */
  isAbout?: boolean;
}

export function Chart({ panel, order, theme, isAbout }: Given) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(panel);
  /** The lines that the plot was made for: those of a later run may be more. */
  const inside = useRef<readonly Line[]>([]);
  /** What it was made with. */
  const madeWith = useRef<Drawn | undefined>(undefined);
  const at = useRef(-1);
  const isSeen = useRef(true);
  const isStale = useRef(false);
  const redraw = (): void =>
    inTurn(holder, () => {
      isStale.current = false;
      // In a batch it is drawn at once, so that the time it takes is counted.
      plot.current?.batch((self: uPlot) => self.setData(aligned(inside.current)));
    });
  latest.current = panel;
  const lines = [
    ...panel.lines,
    ...panel.pinned.flatMap((pin) => pin.lines.map((line) => ({ ...line, label: `${line.label} · ${pin.name}` }))),
  ];
  const shape = JSON.stringify([lines.map((line) => [line.key, line.label]), theme, order]);

  useEffect(() => {
    const element = holder.current!;
    const colour = colours();
    const count = panel.lines.length;
    const series: uPlot.Series[] = lines.map((line, index) => {
      const { colour: stroke, dash } = strokeOf(line, order, colour.ink);
      const isPinned = index >= count;
      return {
        label: line.label,
        stroke: isPinned ? `${stroke}b3` : stroke,
        width: (line.level || isPinned ? 1 : 1.5) * thick(),
        dash: (isPinned ? [5, 5] : dash)?.map((part) => part * thick()),
        points: line.points ? { show: true, size: 4 * thick(), fill: stroke } : { show: false },
        ...(line.points ? { paths: () => null } : {}),
        value: (_, value: number | null) => {
          // A level is the same everywhere.
          const found = line.level ? latest.current.lines[index]?.y[0] : value;
          return found === null || found === undefined ? '–' : `${digits(found)} ${panel.unit}`;
        },
      };
    });
    const axis: uPlot.Axis = {
      stroke: colour.soft,
      grid: { stroke: colour.grid, width: 1 },
      ticks: { stroke: colour.grid, width: 1, size: 4 },
      font: `${0.75 * rem()}px system-ui, sans-serif`,
    };
    const made = new uPlot(
      {
        width: Math.max(element.clientWidth, 200),
        height: height(),
        scales: {
          x: {
            time: false,
            range: (_, low, high) => zoom.peek() ?? [Math.min(0, low ?? 0), Math.max(duration.peek(), high ?? 0)],
          },
          y: {
            range: (self, low, high) => {
              const most = isOwnScale.peek() && count < lines.length ? highest(self, count) : high;
              return [Math.min(0, low ?? 0), Math.max(LEAST[panel.id] ?? 0, most > 0 ? most * 1.08 : 1)];
            },
          },
        },
        axes: [
          {
            ...axis,
            values: (_, ticks) => ticks.map((tick) => `${Number(tick.toFixed(6))} s`),
            space: 4 * rem(),
            size: 1.9 * rem(),
          },
          { ...axis, space: 2 * rem(), size: 3.3 * rem() },
        ],
        series: [
          {
            label: 'at',
            value: (_, value: number | null) => (value === null || value === undefined ? '–' : `${value.toFixed(3)} s`),
          },
          ...series,
        ],
        cursor: {
          sync: { key: 'tailback', setSeries: false },
          // The distance decides below whether it was a click or a drag.
          drag: { x: true, y: false, setScale: false, click: () => undefined },
          points: { size: 6 * thick() },
          dataIdx: (self, index, hovered) =>
            nearest(self.data[index] as (number | null | undefined)[] | undefined, hovered),
        },
        legend: {
          show: true,
          live: true,
          markers: {
            width: 3,
            dash: (_, index) => (lines[index - 1]?.level ? 'dotted' : index > count || series[index - 1]?.dash ? 'dashed' : 'solid'),
          },
        },
        hooks: {
          setSelect: [
            (self) => {
              if (self.select.width < DRAG_PX) return;
              const low = self.posToVal(self.select.left, 'x');
              zoom.value = [Math.max(0, low), self.posToVal(self.select.left + self.select.width, 'x')];
              self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
          draw: [(self) => drawMarks(self, latest.current.marks, order, colour)],
        },
      },
      aligned(lines),
      element,
    );
    plot.current = made;
    madeWith.current = panel;
    let downAt = 0;
    made.over.addEventListener('mousedown', (event) => (downAt = event.clientX));
    made.over.addEventListener('click', (event) => {
      if (Math.abs(event.clientX - downAt) >= DRAG_PX) return;
      const found = nearestMark(made, latest.current.marks, event.offsetX, event.offsetY);
      if (found) chosen.value = { table: found.table, row: found.row };
    });
    made.over.addEventListener('mousemove', (event) => {
      made.over.style.cursor = nearestMark(made, latest.current.marks, event.offsetX, event.offsetY)
        ? 'pointer'
        : 'crosshair';
    });
    made.over.addEventListener('dblclick', () => (zoom.value = undefined));
    const observer = new ResizeObserver(() =>
      made.setSize({ width: Math.max(element.clientWidth, 200), height: height() }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape]);

  useEffect(() => {
    inside.current = lines;
    // A plot that was just made has been drawn.
    if (madeWith.current === panel) return;
    isStale.current = true;
    if (isSeen.current) redraw();
  }, [panel]);

  // What is out of sight is drawn when it comes into sight.
  useEffect(() => {
    const observer = new IntersectionObserver(
      (seen) => {
        isSeen.current = seen.at(-1)!.isIntersecting;
        if (isSeen.current && isStale.current) redraw();
      },
      { rootMargin: NEAR },
    );
    observer.observe(holder.current!);
    return () => observer.disconnect();
  }, []);

  useSignalEffect(() => {
    const [low, high] = zoom.value ?? [0, duration.value];
    void [chosen.value, isOwnScale.value];
    if (plot.current && high > low) plot.current.setScale('x', { min: low, max: high });
    plot.current?.redraw(false);
  });

  const keys = (event: KeyboardEvent): void => {
    const { marks } = latest.current;
    const [low, high] = zoom.peek() ?? [0, duration.peek()];
    const middle = (low + high) / 2;
    const to = (scale: number, shift = 0): void => {
      const half = ((high - low) / 2) * scale;
      const center = Math.min(Math.max(middle + shift * (high - low), half), Math.max(half, duration.peek() - half));
      zoom.value =
        scale > 1 && 2 * half >= duration.peek()
          ? undefined
          : [Math.max(0, center - half), Math.min(duration.peek(), center + half)];
    };
    const actions: Record<string, () => void> = {
      '+': () => to(0.5),
      '=': () => to(0.5),
      '-': () => to(2),
      ArrowLeft: () => to(1, -0.25),
      ArrowRight: () => to(1, 0.25),
      '0': () => (zoom.value = undefined),
      Escape: () => (chosen.value = undefined),
      n: () => step(1),
      p: () => step(-1),
    };
    const step = (by: number): void => {
      const inside = marks.filter((mark) => mark.t >= low && mark.t <= high);
      if (!inside.length) return;
      at.current = (at.current + by + inside.length) % inside.length;
      const mark = inside[at.current]!;
      chosen.value = { table: mark.table, row: mark.row };
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  };

  const events = panel.marks.length;
  const term = TERMS[panel.id];
  return (
    <figure class={isAbout ? 'chart about' : 'chart'} data-panel={panel.id}>
      <figcaption>
        <h3>{term ? <Help term={term}>{panel.title}</Help> : panel.title}</h3>
        <span class="unit">{panel.unit}</span>
        {events > 0 && (
          <span class="hint">
            {signs(panel.marks)}: click one to see why
          </span>
        )}
      </figcaption>
      <div
        ref={holder}
        class="plot"
        tabIndex={0}
        role="img"
        onKeyDown={keys}
        aria-label={`${panel.title} over time. Keys: plus and minus zoom, arrows move, 0 shows all, n and p go through the events.`}
      />
      <p class="keys" aria-hidden="true">
        <kbd>+</kbd> <kbd>−</kbd> zoom, <kbd>←</kbd> <kbd>→</kbd> move, <kbd>0</kbd> all
        {events > 0 && (
          <>
            , <kbd>n</kbd> <kbd>p</kbd> through the events
          </>
        )}
      </p>
    </figure>
  );
}

const TERMS: Partial<Record<Panel['id'], 'queue' | 'cwnd'>> = { queue: 'queue', window: 'cwnd' };

/** The highest value in sight of the run's own lines. */
function highest(plot: uPlot, count: number): number {
  const [low, high] = [plot.scales['x']!.min ?? -Infinity, plot.scales['x']!.max ?? Infinity];
  const x = plot.data[0];
  let most = 0;
  for (const line of plot.data.slice(1, count + 1))
    for (let at = 0; at < x.length; at++)
      if (x[at]! >= low && x[at]! <= high && (line[at] ?? 0) > most) most = line[at]!;
  return most;
}

function nearest(values: (number | null | undefined)[] | undefined, index: number): number {
  if (!values || values[index] !== undefined) return index;
  for (let away = 1; away < 400; away++) {
    if (values[index - away] !== undefined) return index - away;
    if (values[index + away] !== undefined) return index + away;
  }
  return index;
}

function nearestMark(plot: uPlot, marks: readonly Mark[], x: number, y: number): Mark | undefined {
  let best: Mark | undefined;
  let least = REACH_PX ** 2;
  for (const mark of marks) {
    const away = (plot.valToPos(mark.t, 'x') - x) ** 2 + (plot.valToPos(mark.y, 'y') - y) ** 2;
    if (away < least) [least, best] = [away, mark];
  }
  return best;
}

function drawMarks(plot: uPlot, marks: readonly Mark[], order: readonly string[], colour: Colours): void {
  const { ctx, bbox } = plot;
  const scale = devicePixelRatio * thick();
  const [low, high] = [plot.scales['x']!.min ?? 0, plot.scales['x']!.max ?? 1];
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left - 6 * scale, bbox.top - 6 * scale, bbox.width + 12 * scale, bbox.height + 12 * scale);
  ctx.clip();
  ctx.lineWidth = 1.4 * scale;
  ctx.setLineDash([]);
  const selected = chosen.peek();
  // Events that fall on the same few pixels are one sign.
  const taken = new Set<number>();
  for (const mark of marks) {
    if (mark.t < low || mark.t > high) continue;
    const [x, y] = [plot.valToPos(mark.t, 'x', true), plot.valToPos(mark.y, 'y', true)];
    const isChosen = selected?.table === mark.table && selected.row === mark.row;
    const cell = Math.round(x / (2 * scale)) * 4096 + Math.round(y / (2 * scale));
    if (taken.has(cell) && !isChosen) continue;
    taken.add(cell);
    ctx.strokeStyle = mark.key.startsWith('link')
      ? stroke(1).colour
      : strokeOf({ key: mark.key, label: '', x: [], y: [] }, order, colour.ink).colour;
    ctx.fillStyle = colour.paper;
    const size = (isChosen ? 7 : 3.5) * scale;
    ctx.beginPath();
    if (mark.what === 'drop') {
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x + size, y - size);
      ctx.lineTo(x - size, y + size);
    } else if (mark.what === 'timeout') ctx.rect(x - size, y - size, 2 * size, 2 * size);
    else if (mark.what === 'mark') {
      ctx.moveTo(x, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.lineTo(x - size, y + size);
      ctx.closePath();
    } else ctx.arc(x, y, size, 0, 2 * Math.PI);
    if (mark.what !== 'drop') ctx.fill();
    ctx.stroke();
    if (isChosen) {
      ctx.beginPath();
      ctx.arc(x, y, 11 * scale, 0, 2 * Math.PI);
      ctx.strokeStyle = colour.ink;
      ctx.stroke();
    }
  }
  ctx.restore();
}
