// Why one event happened: facts, the law with its numbers, the source.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Why } from '../engine';
import { digits } from '../quantity';
import { numbers, panels } from '../series';
import { chosen, engine, outcome, stored, zoom } from '../state';
import { Explained } from './help';

const UNITS: Record<string, string> = {
  bytes: 'B',
  ms: 'ms',
  s: 's',
  mbps: 'Mbit/s',
  packets: 'packets',
  segments: 'segments',
};

/** `queue_delay_ms: 80` as "queue delay" and "80 ms". */
export function fact(name: string, value: string | number): [string, string] {
  const parts = name.split('_');
  const unit = parts.length > 1 ? UNITS[parts[parts.length - 1]!] : undefined;
  const words = (unit && parts[parts.length - 1] !== 'packets' ? parts.slice(0, -1) : parts).join(' ');
  const text =
    typeof value === 'number' ? (Number.isInteger(value) ? value.toLocaleString('en') : digits(value, 5)) : value;
  return [words, unit && parts[parts.length - 1] !== 'packets' ? `${text} ${unit}` : text];
}

export function WhyPanel() {
  const [why, setWhy] = useState<Why | { failed: string } | undefined>(undefined);
  const asked = chosen.value;
  useEffect(() => {
    setWhy(undefined);
    if (!asked) return;
    let isStale = false;
    engine.why(undefined, asked).then(
      (found) => isStale || setWhy(found),
      (error: Error) => isStale || setWhy({ failed: error.message }),
    );
    return () => {
      isStale = true;
    };
  }, [asked, outcome.value]);
  const panel = useRef<HTMLElement>(null);
  useEffect(() => {
    // Beside a tour it may lie outside what is in sight of its column or sheet.
    const [side, it] = [panel.current?.parentElement, panel.current];
    const above = side?.querySelector<HTMLElement>('.grip')?.offsetHeight ?? 0;
    if (side && it) side.scrollTop += it.getBoundingClientRect().top - side.getBoundingClientRect().top - above;
  }, [asked]);
  if (!asked || !outcome.value) return null;
  const go = (by: number): void => {
    const marks = panels(outcome.peek()!)
      .flatMap((panel) => panel.marks)
      .filter((mark) => mark.table === asked.table);
    marks.sort((a, b) => a.row - b.row);
    const at = marks.findIndex((mark) => mark.row === asked.row);
    const next = marks[(at + by + marks.length) % marks.length];
    if (next) chosen.value = { table: next.table, row: next.row };
  };
  const t = numbers(outcome.value.tables[asked.table]!, 't_s')[asked.row]!;
  return (
    <section class="why" aria-label="Why" aria-live="polite" ref={panel}>
      <header>
        <h2>Why, at {digits(t, 6)} s</h2>
        <button type="button" onClick={() => go(-1)} aria-label="The event before">
          ‹
        </button>
        <button type="button" onClick={() => go(1)} aria-label="The event after">
          ›
        </button>
        <button type="button" onClick={() => (zoom.value = [Math.max(0, t - 0.5), t + 0.5])}>
          Zoom
        </button>
        <button type="button" class="close" onClick={() => (chosen.value = undefined)} aria-label="Close">
          ×
        </button>
      </header>
      {why === undefined && <p>…</p>}
      {why && 'failed' in why && (
        <p>{stored.value === undefined ? why.failed : 'This is a stored result: change or run it to ask.'}</p>
      )}
      {why && 'facts' in why && (
        <>
          {why.formula && <p class="formula">{why.formula}</p>}
          <dl>
            {Object.entries(why.facts).map(([name, value]) => {
              const [short, text] = fact(name, value);
              // A size without its unit would bear the name of the thing itself.
              const words = short !== name && short in why.facts ? name.replaceAll('_', ' ') : short;
              return (
                <div key={name}>
                  <dt>{words}</dt>
                  <dd>
                    <Explained>{text}</Explained>
                  </dd>
                </div>
              );
            })}
          </dl>
          {why.source && (
            <p class="source">
              {why.formula ? 'The same rule stands in: ' : 'More on it in: '}
              {why.source}
            </p>
          )}
        </>
      )}
    </section>
  );
}
