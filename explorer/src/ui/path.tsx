// The path: drawn, moved with the mouse or the keys, or set by sliders.

import { useRef } from 'preact/hooks';
import {
  dumbbellOf,
  list,
  named,
  queueOf,
  shapeOf,
  table,
  text,
  withDiscipline,
  withLimit,
  type Document,
  type Value,
} from '../document';
import { digits, limitText, rateText, rateWords, timeText, timeWords, type Limit } from '../quantity';
import { catalogue, scenario, edit, everything, outcome } from '../state';
import { Slider, fromPlace, toPlace, type Scale } from './slider';

const RATE: Scale = { low: 1e5, high: 1e10 };
const RTT: Scale = { low: 0.001, high: 1 };
const QUEUE: Scale = { low: 0.05, high: 20 };
const LOSS: Scale = { low: 1e-5, high: 0.1, zero: true };

const setDumbbell = (kind: string, key: string, value: Value | undefined): void =>
  edit(kind, (document) => {
    document['dumbbell'] = { ...table(document['dumbbell']), [key]: value };
  });

const setRtt = (value: number): void =>
  edit('rtt', (document) => {
    const { delay: _, back_delay: __, ...rest } = table(document['dumbbell']);
    document['dumbbell'] = { ...rest, rtt: timeText(value) };
  });

const setLoss = (value: number): void =>
  edit('loss', (document) => {
    const dumbbell = table(document['dumbbell']);
    const { loss: _, ...rest } = table(dumbbell['wire']);
    const wire = value > 0 ? { ...rest, loss: Number(digits(value, 2)) } : rest;
    document['dumbbell'] = { ...dumbbell, wire: Object.keys(wire).length ? wire : undefined };
  });

/** A queue's length in multiples of the BDP, however it is written. */
function inBdp(size: Limit | undefined, rate: number, rtt: number): number | undefined {
  const bdp = (rate * rtt) / 8;
  if (!size || bdp <= 0) return undefined;
  if (size.unit === 'bdp') return size.amount;
  if (size.unit === 'seconds') return (size.amount * rate) / 8 / bdp;
  return (size.unit === 'packets' ? size.amount * 1500 : size.amount) / bdp;
}

export function PathPanel() {
  const document = scenario.value;
  const shape = shapeOf(document);
  const presets = everything.value?.presets ?? [];
  const preset = shape === 'preset' ? named(document['path'], 'preset') : '';
  const choose = (name: string): void =>
    edit(`path ${name}`, (changed) => {
      if (name === '') {
        changed['dumbbell'] = { rate: '10mbit', rtt: '80ms', queue: '1bdp' };
        changed['path'] = undefined;
      } else {
        changed['path'] = name;
        changed['dumbbell'] = undefined;
      }
      const wasNetwork = changed['link'] !== undefined;
      changed['link'] = changed['nodes'] = undefined;
      // Routes and nodes of another network mean nothing here; who runs against the others stays.
      changed.flow = list(changed.flow as Value | undefined).map(({ route: _, back_route: __, from, to, ...flow }) =>
        wasNetwork
          ? flow
          : {
              ...flow,
              ...(from === 'left' || from === 'right' ? { from } : {}),
              ...(to === 'left' || to === 'right' ? { to } : {}),
            },
      );
    });
  const found = presets.find((each) => each.name === preset);
  return (
    <section class="panel" aria-labelledby="path-title">
      <h2 id="path-title">Path</h2>
      <label class="field">
        <span>Network</span>
        <select
          value={shape === 'network' ? 'network' : preset}
          onChange={(event) => choose(event.currentTarget.value)}
          data-choice="network"
        >
          <option value="">One bottleneck</option>
          <optgroup label="Access links and networks of the papers">
            {presets.map((each) => (
              <option value={each.name} key={each.name}>
                {each.title}
              </option>
            ))}
          </optgroup>
          {shape === 'network' && <option value="network">A network of its own</option>}
        </select>
      </label>
      {shape === 'dumbbell' && <Dumbbell document={document} />}
      {shape === 'preset' && (
        <>
          {found && (
            <p class="note">
              {found.source}. There was measured: {found.reported}.
            </p>
          )}
          {(found?.options ?? []).map((option) => (
            <label class="field" key={option.name} title={option.doc}>
              <span>{option.name.replaceAll('_', ' ')}</span>
              <input
                type="text"
                value={String(table(document['path'])[option.name] ?? option.default)}
                onChange={(event) => {
                  const given = event.currentTarget.value.trim();
                  const value: Value =
                    typeof option.default === 'number' && given !== '' && Number.isFinite(Number(given))
                      ? Number(given)
                      : given;
                  edit('option', (changed) => {
                    changed['path'] = { ...table(changed['path']), preset, [option.name]: value };
                  });
                }}
              />
            </label>
          ))}
        </>
      )}
      {shape === 'network' && <Links document={document} />}
    </section>
  );
}

function Links({ document }: { document: Document }) {
  return (
    <>
      {list(document['link']).map((link, index) => (
        <fieldset key={index}>
          <legend>
            {text(link['name'])}: {text(link['from'])} → {text(link['to'])}
          </legend>
          {(['rate', 'delay', 'queue'] as const).map((key) =>
            typeof link[key] === 'string' ? (
              <label class="field" key={key}>
                <span>{key}</span>
                <input
                  type="text"
                  value={text(link[key])}
                  onChange={(event) => {
                    const value = event.currentTarget.value;
                    edit(`link ${key}`, (changed) => (list(changed['link'])[index]![key] = value));
                  }}
                />
              </label>
            ) : null,
          )}
        </fieldset>
      ))}
      <p class="note">Nodes and routes are set in the text.</p>
    </>
  );
}

function Dumbbell({ document }: { document: Document }) {
  const names = (catalogue.value?.queues ?? []).map((card) => card.name);
  const { rate, rtt, loss, fields } = dumbbellOf(document);
  const { discipline, size } = queueOf(fields['queue'], names);
  const multiple = inBdp(size, rate, rtt);
  const bdp = (rate * rtt) / 8;
  const isInBytes = size?.unit === 'bytes';
  const setQueue = (value: number, inBytes = isInBytes): void => {
    const held: Limit = inBytes ? { amount: Math.round(value * bdp), unit: 'bytes' } : { amount: value, unit: 'bdp' };
    setDumbbell('queue', 'queue', withLimit(fields['queue'], limitText(held), names));
  };
  const kept =
    multiple === undefined
      ? 'a limit of its own'
      : inWords(multiple, `${digits((multiple * bdp) / 1000, 3)} kB`, timeWords(multiple * rtt), isInBytes);
  const card = catalogue.value?.queues.find((each) => each.name === discipline);
  return (
    <>
      <Drawing
        rate={rate}
        rtt={rtt}
        loss={loss}
        discipline={card?.title ?? discipline}
        multiple={multiple}
        setQueue={setQueue}
      />
      <Slider
        name="rate"
        label="Rate"
        value={rate}
        scale={RATE}
        words={rateWords(rate)}
        onInput={(value) => setDumbbell('rate', 'rate', rateText(value))}
      />
      <Slider
        name="rtt"
        label="Round trip"
        value={rtt}
        scale={RTT}
        words={timeWords(rtt)}
        onInput={setRtt}
        hint="Propagation alone, there and back"
      />
      <label class="field">
        <span>Queue</span>
        <select
          value={discipline}
          data-choice="queue"
          onChange={(event) =>
            setDumbbell('discipline', 'queue', withDiscipline(fields['queue'], event.currentTarget.value, names))
          }
        >
          {(catalogue.value?.queues ?? [{ name: discipline, title: discipline }]).map((each) => (
            <option value={each.name} key={each.name}>
              {each.title}
            </option>
          ))}
        </select>
      </label>
      {multiple !== undefined && (
        <Slider
          name="queue"
          label="Queue length"
          value={multiple}
          scale={QUEUE}
          words={kept}
          onInput={setQueue}
          term="bdp"
        />
      )}
      {multiple !== undefined && (size?.unit === 'bdp' || isInBytes) && (
        <label class="note">
          <input
            type="checkbox"
            checked={isInBytes}
            data-choice="bytes"
            onChange={(event) => setQueue(multiple, event.currentTarget.checked)}
          />{' '}
          Hold the kB when rate or round trip change
        </label>
      )}
      {multiple === undefined && (
        <p class="note">
          {discipline === 'fifo' ? 'Without a limit.' : "Its limit is the discipline's own."}{' '}
          <button type="button" class="link" onClick={() => setQueue(1)}>
            Limit it to 1 BDP
          </button>
        </p>
      )}
      <Slider
        name="loss"
        label="Random loss"
        value={loss}
        scale={LOSS}
        words={loss > 0 ? `${digits(100 * loss, 2)} %` : 'none'}
        onInput={setLoss}
      />
    </>
  );
}

/** A length in three ways, that first which is held. */
const inWords = (multiple: number, bytes: string, time: string, isInBytes: boolean): string => {
  const bdp = `${digits(multiple, 2)} BDP`;
  return isInBytes ? `${bytes} = ${bdp} = ${time}` : `${bdp} = ${bytes} = ${time}`;
};

interface Shown {
  rate: number;
  rtt: number;
  loss: number;
  discipline: string;
  multiple: number | undefined;
  setQueue: (value: number) => void;
}

const WIDTH = 340;
const PIPE = { from: 150, least: 40, most: 130 };
const THICK = { least: 6, most: 46 };
const BOX = { right: 138, least: 16, most: 80 };

/** The pipe is as long as the round trip and as thick as the rate; the box before it is as long as the queue. */
function Drawing({ rate, rtt, loss, discipline, multiple, setQueue }: Shown) {
  const svg = useRef<SVGSVGElement>(null);
  const share = (scale: Scale, value: number): number => toPlace(scale, value) / 400;
  const long = PIPE.least + share(RTT, rtt) * (PIPE.most - PIPE.least);
  const thick = THICK.least + share(RATE, rate) * (THICK.most - THICK.least);
  const box = multiple === undefined ? 34 : BOX.least + share(QUEUE, multiple) * (BOX.most - BOX.least);
  const y = 62;
  const link = outcome.value?.links.find((each) => each.name === 'bottleneck');
  const whole = multiple === undefined ? Math.max(link?.queue_p95_ms ?? 0, 1) * 1.5 : multiple * rtt * 1e3;
  const filled = link && Number.isFinite(link.queue_p50_ms) ? Math.min(1, link.queue_p50_ms / whole) : 0;
  const handle = (
    name: string,
    label: string,
    words: string,
    scale: Scale,
    value: number,
    at: { x: number; y: number },
    place: (x: number, y: number) => number,
    set: (value: number) => void,
  ) => {
    const moved = (event: PointerEvent): void => {
      if (!(event.currentTarget as Element).hasPointerCapture(event.pointerId)) return;
      const area = svg.current!.getBoundingClientRect();
      const unit = WIDTH / area.width;
      set(
        fromPlace(
          scale,
          400 * Math.min(1, Math.max(0, place((event.clientX - area.left) * unit, (event.clientY - area.top) * unit))),
        ),
      );
    };
    const key = (event: KeyboardEvent): void => {
      const by: Record<string, number> = {
        ArrowRight: 8,
        ArrowUp: 8,
        ArrowLeft: -8,
        ArrowDown: -8,
        PageUp: 40,
        PageDown: -40,
      };
      const step = by[event.key];
      if (step === undefined) return;
      event.preventDefault();
      set(fromPlace(scale, Math.min(400, Math.max(0, toPlace(scale, value) + step))));
    };
    return (
      <circle
        class="handle"
        data-handle={name}
        cx={at.x}
        cy={at.y}
        r={8}
        tabindex={0}
        role="slider"
        aria-label={label}
        aria-valuetext={words}
        aria-valuemin={0}
        aria-valuemax={400}
        aria-valuenow={Math.round(toPlace(scale, value))}
        onPointerDown={(event) => {
          event.preventDefault();
          event.currentTarget.setPointerCapture(event.pointerId);
          event.currentTarget.focus();
        }}
        onPointerMove={moved}
        onKeyDown={key}
      >
        <title>
          {label}: {words}. Drag it, or use the arrow keys.
        </title>
      </circle>
    );
  };
  const end = PIPE.from + long;
  return (
    <svg
      ref={svg}
      class="drawing"
      viewBox={`0 0 ${WIDTH} 128`}
      role="group"
      aria-label="The path, drawn: drag the three handles"
    >
      <line x1="24" y1={y} x2={BOX.right - box} y2={y} class="wire" />
      <line x1={end} y1={y} x2="318" y2={y} class="wire" />
      <rect x="6" y={y - 15} width="26" height="30" rx="3" class="node" />
      <path d={`M10 ${y - 7}h18M10 ${y}h18M10 ${y + 7}h18`} class="lines" />
      <text x="19" y={y + 34} class="name">
        server
      </text>
      <rect x={BOX.right - box} y={y - 20} width={box} height="40" class="queue" />
      <rect x={BOX.right - box * filled} y={y - 20} width={box * filled} height="40" class="backlog">
        <title>Half of the time the queue was at least so full</title>
      </rect>
      <text x={BOX.right - box / 2} y={y - 28} class="name">
        {discipline}
      </text>
      <rect x={PIPE.from} y={y - thick / 2} width={long} height={thick} rx={Math.min(thick / 2, 6)} class="pipe" />
      <line x1={BOX.right} y1={y} x2={PIPE.from} y2={y} class="wire" />
      {loss > 0 && (
        <g class="lossy">
          <path d={`M${PIPE.from + long / 2 - 5} ${y - 5}l10 10m0 -10l-10 10`} />
          <title>{digits(100 * loss, 2)} % of the packets are lost on the way</title>
        </g>
      )}
      <text x={PIPE.from + long / 2} y={y + thick / 2 + 16} class="name">
        {rateWords(rate)}, {timeWords(rtt)}
      </text>
      <path d={`M306 ${y + 14}v-16l13 -11 13 11v16z`} class="node" />
      <text x="319" y={y + 34} class="name">
        home
      </text>
      {multiple !== undefined &&
        handle(
          'queue',
          'Queue length',
          `${digits(multiple, 2)} BDP`,
          QUEUE,
          multiple,
          { x: BOX.right - box, y: y + 20 },
          (x) => (BOX.right - x - BOX.least) / (BOX.most - BOX.least),
          setQueue,
        )}
      {handle(
        'rtt',
        'Round trip',
        timeWords(rtt),
        RTT,
        rtt,
        { x: end, y },
        (x) => (x - PIPE.from - PIPE.least) / (PIPE.most - PIPE.least),
        setRtt,
      )}
      {handle(
        'rate',
        'Rate',
        rateWords(rate),
        RATE,
        rate,
        { x: PIPE.from + long / 2, y: y - thick / 2 },
        (_, pointed) => (2 * (y - pointed) - THICK.least) / (THICK.most - THICK.least),
        (value) => setDumbbell('rate', 'rate', rateText(value)),
      )}
    </svg>
  );
}
