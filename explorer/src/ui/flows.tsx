// Who uses the path: what each does, how its TCP behaves, from when to when.

import { carriesPackets, isOffered, isOverUdp, onlyAsks, plain } from '../applications';
import { stroke } from '../colours';
import {
  changed,
  durationOf,
  flowViews,
  list,
  named,
  type Document,
  type Fields,
  type FlowView,
  type Value,
} from '../document';
import { digits, seconds, timeText, timeWords } from '../quantity';
import { catalogue, scenario, edit } from '../state';
import { Help } from './help';
import { Slider, type Scale } from './slider';

/** What is offered first; every other application is in the list of a flow. */
const ADD: { label: string; name: string; flow: Fields }[] = [
  { label: 'Download', name: 'download', flow: { app: 'bulk', cc: 'cubic' } },
  { label: 'Call', name: 'call', flow: { app: 'voip' } },
  { label: 'Web reader', name: 'reader', flow: { app: 'web-probe', from: 'right', to: 'left' } },
  { label: 'Files', name: 'files', flow: { app: 'transfers' } },
  { label: 'Ping', name: 'ping', flow: { app: 'ping' } },
];
/** More at once is a study, not a picture. */
const MOST_ALIKE = 100;
const FARTHER: Scale = { low: 0.001, high: 0.5, zero: true };

function setFlow(index: number, kind: string, how: (flow: Fields, document: Document) => Fields): void {
  edit(`flow ${index} ${kind}`, (document) => {
    const flows = list(document.flow as Value | undefined);
    document.flow = flows.map((flow, at) => (at === index ? how(flow, document) : flow));
  });
}

/** What stands for a part that has parameters of its own in the text: its plain one can then be chosen, too. */
const AS_WRITTEN = '(as written)';

const setKey = (index: number, key: string, value: Value | undefined): void =>
  setFlow(index, key, (flow) => ({ ...flow, [key]: value }));

export function FlowsPanel() {
  const document = scenario.value;
  const flows = flowViews(document);
  const length = durationOf(document);
  const isNetwork = document['link'] !== undefined;
  const add = (base: string, given: Fields): void =>
    edit('add', (changed) => {
      const taken = flowViews(changed).map((flow) => flow.name);
      let name = base;
      for (let number = 2; taken.includes(name); number++) name = `${base}-${number}`;
      changed.flow = [...list(changed.flow as Value | undefined), { name, ...given }];
    });
  return (
    <section class="panel" aria-labelledby="flows-title">
      <h2 id="flows-title">Flows</h2>
      <ol class="flows">
        {flows.map((flow) => (
          <FlowRow key={flow.index} flow={flow} length={length} isAlone={flows.length === 1} isNetwork={isNetwork} />
        ))}
      </ol>
      {!isNetwork && (
        <div class="add" role="group" aria-label="Add a flow">
          {ADD.map((each) => (
            <button type="button" key={each.label} onClick={() => add(each.name, each.flow)} data-add={String(each.flow['app'])}>
              + {each.label}
            </button>
          ))}
        </div>
      )}
      <Length document={document} />
    </section>
  );
}

function FlowRow({
  flow,
  length,
  isAlone,
  isNetwork,
}: {
  flow: FlowView;
  length: number;
  isAlone: boolean;
  isNetwork: boolean;
}) {
  const { colour } = stroke(flow.place);
  const isTcp = !isOverUdp(flow.app);
  const cards = catalogue.value;
  const farther = seconds(flow.fields['access_delay']) ?? 0;
  const setApp = (app: string): void =>
    setFlow(flow.index, 'app', ({ cc, stack, params: _, bytes: __, from, to, ...rest }) => ({
      ...rest,
      app,
      ...(isOverUdp(app)
        ? {}
        : { ...(cc === undefined ? {} : { cc }), ...(stack === undefined ? {} : { stack }) }),
      // What a reader asks for travels with the downloads, so the reader sits at the other end.
      ...(onlyAsks(app)
        ? isNetwork
          ? { from, to }
          : { from: 'right', to: 'left' }
        : isNetwork
          ? { from, to }
          : {}),
    }));
  const setName = (key: 'cc' | 'stack', name: string): void => setKey(flow.index, key, name);
  const remove = (): void =>
    edit('remove', (document) => {
      document.flow = list(document.flow as Value | undefined).filter((_, at) => at !== flow.index);
    });
  const stop = flow.stop ?? length;
  const title = (of: 'algorithms' | 'stacks', name: string): string =>
    cards?.[of].find((card) => card.name === name)?.title ?? name;
  const ccChanged = changed(flow.fields['cc'], 'name');
  const stack = named(flow.fields['stack'], 'name') || 'linux';
  const stackChanged = changed(flow.fields['stack'], 'name');
  const stacks = (
    <label class="field">
      <span>Stack</span>
      <select
        value={stackChanged ? AS_WRITTEN : stack}
        onChange={(event) => event.currentTarget.value !== AS_WRITTEN && setName('stack', event.currentTarget.value)}
        data-choice="stack"
      >
        {stackChanged && (
          <option value={AS_WRITTEN}>
            {title('stacks', stack)}, changed in the text
          </option>
        )}
        {(cards?.stacks ?? []).map((card) => (
          <option value={card.name} key={card.name}>
            {card.title}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <li class="flow" style={{ '--flow': colour }}>
      <div class="head">
        <span class="swatch" aria-hidden="true" />
        <input
          class="name"
          type="text"
          value={flow.name}
          aria-label="Name"
          spellcheck={false}
          onChange={(event) => setKey(flow.index, 'name', event.currentTarget.value.trim() || undefined)}
        />
        {!isNetwork && !carriesPackets(flow.app) && (
          <label class="count">
            ×{' '}
            <input
              type="number"
              min={1}
              max={MOST_ALIKE}
              step={1}
              value={flow.count}
              aria-label={`How many of ${flow.name}`}
              title="How many of these"
              data-count={flow.name}
              onChange={(event) => {
                const value = Math.min(MOST_ALIKE, Math.max(1, Math.round(Number(event.currentTarget.value))));
                setKey(flow.index, 'count', value > 1 ? value : undefined);
              }}
            />
          </label>
        )}
        <button
          type="button"
          class="remove"
          onClick={remove}
          disabled={isAlone}
          title={isAlone ? 'A scenario needs a flow' : 'Remove'}
          aria-label={`Remove ${flow.name}`}
        >
          ×
        </button>
      </div>
      <div class="pair">
        <label>
          <span>What</span>
          <select value={flow.app} onChange={(event) => setApp(event.currentTarget.value)}>
            {(cards?.applications ?? [{ name: flow.app, title: flow.app }])
              .filter((card) => isOffered(card.name) || card.name === flow.app)
              .map((card) => (
                <option value={card.name} key={card.name}>
                  {plain(card.name)}
                </option>
              ))}
          </select>
        </label>
        {isTcp && (
          <label>
            <span>Congestion control</span>
            <select
              value={ccChanged ? AS_WRITTEN : flow.cc}
              onChange={(event) => event.currentTarget.value !== AS_WRITTEN && setName('cc', event.currentTarget.value)}
              data-choice="cc"
            >
              {ccChanged && (
                <option value={AS_WRITTEN}>
                  {title('algorithms', flow.cc)}, {ccChanged}
                </option>
              )}
              {(cards?.algorithms ?? [{ name: flow.cc, title: flow.cc }]).map((card) => (
                <option value={card.name} key={card.name} title={card.law}>
                  {card.title}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {ccChanged && (
        <p class="note">
          {title('algorithms', flow.cc)} with {ccChanged}: set in the text.
        </p>
      )}
      {isTcp && flow.fields['stack'] !== undefined && stacks}
      {stackChanged && <p class="note">Set in the text: {stackChanged}.</p>}
      <details>
        <summary>
          from {timeWords(flow.start)} to {flow.stop === undefined ? 'the end' : timeWords(flow.stop)}
          {farther > 0 ? `, ${timeWords(2 * farther)} farther` : ''}
        </summary>
        <div class="span" role="group" aria-label="When it runs">
          <label>
            start
            <input
              type="range"
              min={0}
              max={length}
              step={length / 240}
              value={flow.start}
              aria-valuetext={timeWords(flow.start)}
              onInput={(event) => {
                const value = Math.min(Number(event.currentTarget.value), stop - length / 240);
                setKey(flow.index, 'start', value <= 0 ? undefined : timeText(value));
              }}
            />
          </label>
          <label>
            stop
            <input
              type="range"
              min={0}
              max={length}
              step={length / 240}
              value={stop}
              aria-valuetext={timeWords(stop)}
              onInput={(event) => {
                const value = Math.max(Number(event.currentTarget.value), flow.start + length / 240);
                setKey(flow.index, 'stop', value >= length - 1e-9 ? undefined : timeText(value));
              }}
            />
          </label>
        </div>
        {!carriesPackets(flow.app) && (
          <Slider
            label="Farther away"
            value={2 * farther}
            scale={FARTHER}
            words={farther > 0 ? `+ ${timeWords(2 * farther)}` : 'no'}
            hint="Added to this flow's round trip alone"
            onInput={(value) => setKey(flow.index, 'access_delay', value > 0 ? timeText(value / 2) : undefined)}
          />
        )}
        {isTcp && flow.fields['stack'] === undefined && stacks}
      </details>
    </li>
  );
}

const LENGTH: Scale = { low: 1, high: 600 };

function Length({ document }: { document: Document }) {
  const seed = document['seed'];
  return (
    <div class="length">
      <Slider
        name="duration"
        label="Simulated time"
        value={durationOf(document)}
        scale={LENGTH}
        words={timeWords(durationOf(document))}
        onInput={(value) => edit('duration', (changed) => (changed['duration'] = `${digits(value, 2)}s`))}
      />
      <label class="field">
        <span>
          <Help term="seed">Seed</Help>
        </span>
        <input
          type="number"
          min={0}
          step={1}
          value={Number(seed ?? 1)}
          onChange={(event) => {
            const value = Math.max(0, Math.round(Number(event.currentTarget.value)));
            edit('seed', (changed) => (changed['seed'] = value));
          }}
        />
      </label>
    </div>
  );
}
