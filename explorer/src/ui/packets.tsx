// One flow packet by packet: when each was sent, when it was acknowledged (Shepard's time-sequence graph).

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { stroke } from '../colours';
import { magnified, read, write } from '../document';
import { Engine, type Outcome } from '../engine';
import { digits } from '../quantity';
import { resolved, segments, type Segments } from '../series';
import { chosen, duration, outcome, stored, toml, zoom } from '../state';
import { theme } from '../theme';
import { colours, rem } from './chart';

/** More than this cannot be distinguished on a screen. */
const MOST_SEGMENTS = 20_000;
const SHOWN_S = 1;
/** The last run of the page can still be asked about while another one is magnified. */
let lens: Engine | undefined;

export default function Packets() {
  const result = outcome.value;
  const flows = useMemo(() => (result ? resolved(result).flows.filter((flow) => flow.tcp) : []), [result]);
  const [flow, setFlow] = useState('');
  const [found, setFound] = useState<{ outcome: Outcome; segments: Segments } | undefined>(undefined);
  const [said, setSaid] = useState('');
  const name = flows.some((each) => each.name === flow) ? flow : (flows[0]?.name ?? '');
  const wide = zoom.value ?? [0, duration.value];
  // Of a wide stretch the first second is shown.
  const [from, until] = [wide[0], Math.min(wide[1], wide[0] + Math.max(SHOWN_S, 4 * pace(result, name)))];

  useEffect(() => {
    if (!name) return;
    const abort = new AbortController();
    setSaid('Recording every segment …');
    recorded(name, from, until, abort.signal).then(
      (outcome) => {
        if (abort.signal.aborted) return;
        const seen = segments(outcome, name, from, until);
        const count = seen.sent.t.length;
        setFound({ outcome, segments: seen });
        setSaid(
          count === 0
            ? `${name} sent nothing between ${digits(from, 4)} and ${digits(until, 4)} s.`
            : count > MOST_SEGMENTS
              ? 'Zoom in to see single packets.'
              : '',
        );
      },
      (error: Error) => abort.signal.aborted || setSaid(error.message),
    );
    return () => abort.abort();
  }, [name, from, until, result]);

  if (!flows.length) return <p class="note">Only flows over TCP can be seen packet by packet.</p>;
  return (
    <section class="packets" aria-labelledby="packets-title">
      <header>
        <h2 id="packets-title" class="quiet">
          Packet by packet
        </h2>
        <select value={name} onChange={(event) => setFlow(event.currentTarget.value)} aria-label="Flow">
          {flows.map((each) => (
            <option key={each.name}>{each.name}</option>
          ))}
        </select>
        <span>
          {digits(from, 5)} to {digits(until, 5)} s
        </span>
        <button type="button" onClick={() => (zoom.value = [Math.max(0, from - (until - from)), from])}>
          ‹ earlier
        </button>
        <button type="button" onClick={() => (zoom.value = [until, Math.min(duration.peek(), until + (until - from))])}>
          later ›
        </button>
        {chosen.value && result && (
          <button type="button" onClick={() => around(result)}>
            around the chosen event
          </button>
        )}
      </header>
      {said && (
        <p class="note" role="status">
          {said}
        </p>
      )}
      {found && <Sequence segments={found.segments} from={from} until={until} theme={theme.value} />}
      <ul class="key">
        <li>
          <i class="sent" /> sent
        </li>
        <li>
          <i class="again" /> sent again
        </li>
        <li>
          <i class="acked" /> acknowledged up to here
        </li>
      </ul>
    </section>
  );
}

/** The rows of every segment: of a stored result its own, else those of a run that records this stretch. */
async function recorded(name: string, from: number, until: number, signal: AbortSignal): Promise<Outcome> {
  const kept = stored.peek();
  if (kept) {
    if (!kept.rows['segments']) throw new Error('This stored result has no segments: they were not recorded.');
    await kept.load(['segments']);
    return kept.outcome;
  }
  lens ??= new Engine();
  return lens.run(write(magnified(read(toml.peek()), name, from, until)), { signal, pictures: false });
}

const pace = (result: Outcome | undefined, name: string): number => {
  const flow = result && resolved(result).flows.find((each) => each.name === name);
  return flow
    ? [...flow.route, ...flow.back_route].reduce(
        (sum, link) => sum + (resolved(result!).links.find((each) => each.name === link)?.delay_ps ?? 0) / 1e12,
        0,
      )
    : 0;
};

function around(result: Outcome): void {
  const where = chosen.peek()!;
  const t = result.tables[where.table]!.columns['t_s']![where.row] as number;
  zoom.value = [Math.max(0, t - 0.3), t + 0.3];
}

function Sequence({
  segments,
  from,
  until,
  theme,
}: {
  segments: Segments;
  from: number;
  until: number;
  theme: string;
}) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = holder.current!;
    const colour = colours();
    const { sent, acked } = segments;
    let [low, high] = [Infinity, -Infinity];
    for (const value of sent.from) low = Math.min(low, value);
    for (const value of sent.until) high = Math.max(high, value);
    if (!(high > low)) return;
    const axis: uPlot.Axis = {
      stroke: colour.soft,
      grid: { stroke: colour.grid, width: 1 },
      ticks: { stroke: colour.grid, width: 1 },
      font: `${0.75 * rem()}px system-ui, sans-serif`,
    };
    const plot = new uPlot(
      {
        width: Math.max(200, element.clientWidth),
        height: 22 * rem(),
        legend: { show: false },
        scales: { x: { time: false, range: () => [from, until] }, y: { range: () => [low, high] } },
        axes: [
          { ...axis, size: 1.9 * rem(), values: (_, ticks) => ticks.map((tick) => `${Number(tick.toFixed(6))} s`) },
          { ...axis, size: 4.8 * rem(), values: (_, ticks) => ticks.map((tick) => `${digits(tick / 1000, 5)} kB`) },
        ],
        series: [{}, { paths: () => null, points: { show: false } }],
        cursor: { sync: { key: 'tailback' }, drag: { x: true, y: false, setScale: false } },
        hooks: {
          setSelect: [
            (self) => {
              if (self.select.width < 4) return;
              zoom.value = [
                self.posToVal(self.select.left, 'x'),
                self.posToVal(self.select.left + self.select.width, 'x'),
              ];
            },
          ],
          draw: [
            (self) => {
              const { ctx, bbox } = self;
              const scale = devicePixelRatio;
              ctx.save();
              ctx.beginPath();
              ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
              ctx.clip();
              ctx.lineWidth = 1.3 * scale;
              ctx.setLineDash([]);
              ctx.strokeStyle = colour.soft;
              ctx.beginPath();
              let last = NaN;
              for (let at = 0; at < acked.t.length; at++) {
                const [x, y] = [self.valToPos(acked.t[at]!, 'x', true), self.valToPos(acked.ack[at]!, 'y', true)];
                if (Number.isNaN(last)) ctx.moveTo(x, y);
                else ctx.lineTo(x, last);
                ctx.lineTo(x, y);
                last = y;
              }
              ctx.stroke();
              for (const again of [false, true]) {
                ctx.strokeStyle = again ? stroke(1).colour : stroke(0).colour;
                ctx.lineWidth = (again ? 3 : 1.6) * scale;
                ctx.beginPath();
                for (let at = 0; at < sent.t.length; at++) {
                  if (sent.again[at] !== again) continue;
                  const x = self.valToPos(sent.t[at]!, 'x', true);
                  const [top, bottom] = [
                    self.valToPos(sent.until[at]!, 'y', true),
                    self.valToPos(sent.from[at]!, 'y', true),
                  ];
                  ctx.moveTo(x, Math.min(top, bottom - 1.5 * scale));
                  ctx.lineTo(x, bottom);
                }
                ctx.stroke();
              }
              ctx.restore();
            },
          ],
        },
      },
      [
        [from, until],
        [low, high],
      ],
      element,
    );
    plot.over.addEventListener('dblclick', () => (zoom.value = undefined));
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: Math.max(200, element.clientWidth), height: 22 * rem() }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [segments, from, until, theme]);
  const count = segments.sent.t.length;
  const again = segments.sent.again.filter(Boolean).length;
  return (
    <div
      class="plot"
      ref={holder}
      role="img"
      aria-label={`${count} segments sent, ${again} of them again, over time by sequence number`}
    />
  );
}
