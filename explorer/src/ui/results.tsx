// Who feels what, and the plots.

import { plain } from '../applications';
import { computed } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { flowViews, dumbbellOf, together, type Document } from '../document';
import type { FlowSummary, Outcome, Table } from '../engine';
import { stroke } from '../colours';
import { digits, seconds, timeWords } from '../quantity';
import { panels, resolved, type Panel, type Resolved } from '../series';
import {
  again,
  duration,
  outcome,
  ran,
  pins,
  runAnyway,
  runShorter,
  scenario,
  status,
  stop,
  toml,
  zoom,
} from '../state';
import { theme } from '../theme';
import { alike, fairness, felt, sharing, waiting, type Sharing } from '../words';
import { Chart, type Drawn } from './chart';
import { Explained, Help } from './help';
import { shownStep } from './tour';
import { toResults } from './jump';

/** A run under way, as far as its polls show. */
function sketched(document: Document, tables: Record<string, Table>): Outcome | undefined {
  const labels = tables['queue_polls']?.labels['link'] ?? [];
  const names = tables['polls']?.labels['flow'] ?? tables['queue_polls']?.labels['flow'] ?? [];
  const before = outcome.peek() && resolved(outcome.peek()!);
  const { rate } = dumbbellOf(document);
  const views = flowViews(document);
  const same = before?.links.length === labels.length && before.links.every((link, at) => link.name === labels[at]);
  const engine: Resolved = {
    duration_ps: duration.peek() * 1e12,
    links:
      same && document['dumbbell'] === undefined
        ? before.links
        : labels.map((name) => ({
            name,
            rate_bps: document['dumbbell'] === undefined ? null : rate,
            delay_ps: 0,
            queue: { discipline: '', params: {} },
          })),
    flows: names.map((name) => ({
      name,
      from: '',
      to: '',
      route: [],
      back_route: [],
      start_ps: 0,
      stop_ps: null,
      app: { kind: views.find((view) => view.name === name)?.app ?? 'bulk' },
      tcp: { cc: '', stack: '', mtu: 1500 },
    })),
  };
  return {
    tables,
    flows: [],
    links: [],
    events: 0,
    wall_ms: 0,
    hash: '',
    scenario: {},
    toml: '',
    engine,
    warnings: [],
  };
}

/** The panels of a finished run, computed when the rows change, not when a run begins or ends. */
const finished = computed(() => (outcome.value ? panels(outcome.value) : []));
const polled = computed(() => (status.value.is === 'running' ? status.value.partial : undefined));

const shown = computed((): { panels: Panel[]; isPartial: boolean } => {
  const partial = polled.value && sketched(scenario.peek(), polled.value);
  return partial ? { panels: panels(partial), isPartial: true } : { panels: finished.value, isPartial: false };
});

const pinned = computed(() => pins.value.map((pin) => ({ name: pin.name, panels: panels(pin.outcome) })));

export const order = computed((): string[] => {
  const of = outcome.value && resolved(outcome.value);
  return of ? [...of.flows.map((flow) => `flow:${flow.name}`), ...of.links.map((link) => `link:${link.name}`)] : [];
});

export const drawn = computed((): Drawn[] =>
  shown.value.panels.map((panel) => ({
    ...panel,
    pinned: pinned.value.map((pin) => ({
      name: pin.name,
      lines: pin.panels.find((each) => each.id === panel.id)?.lines.filter((line) => !line.level) ?? [],
    })),
  })),
);

export function Results() {
  const result = outcome.value;
  const look = shownStep()?.look ?? [];
  // What a step is about comes first.
  const charts = [
    ...look.flatMap((id) => drawn.value.filter((panel) => panel.id === id)),
    ...drawn.value.filter((panel) => !look.includes(panel.id)),
  ];
  const begun = useInTurn(charts.length);
  const isWhole = !zoom.value || (zoom.value[0] <= 0 && zoom.value[1] >= duration.value);
  const isOld = ran.value !== toml.value && (status.value.is === 'running' || status.value.is === 'stopped');
  return (
    <>
      <RunStatus />
      {result && (
        <div class={isOld ? 'past-run' : undefined}>
          <Cards result={result} />
        </div>
      )}
      <div class="toolbar" role="group" aria-label="Time axis">
        {!isWhole ? (
          <>
            <span>
              {digits(zoom.value![0], 4)} to {digits(zoom.value![1], 4)} s
            </span>
            <button type="button" onClick={() => (zoom.value = undefined)}>
              Show all of it
            </button>
          </>
        ) : (
          <span class="hint">Drag over a plot to zoom in; a double click shows all.</span>
        )}
      </div>
      <div class={shown.value.isPartial ? 'charts partial' : isOld ? 'charts past-run' : 'charts'}>
        {charts.slice(0, begun).map((panel) => (
          <Chart
            key={panel.id}
            panel={panel}
            order={order.value}
            theme={theme.value}
            isAbout={look.includes(panel.id)}
          />
        ))}
      </div>
      {result && result.links.length > 0 && <LinksTable result={result} />}
    </>
  );
}

/** How many of this many plots are there: at first one, and one more each frame. */
function useInTurn(all: number): number {
  const [begun, begin] = useState(1);
  useEffect(() => {
    if (begun >= all) return;
    const asked = requestAnimationFrame(() => begin(begun + 1));
    return () => cancelAnimationFrame(asked);
  }, [begun, all]);
  return begun;
}

/** On a narrow screen the figures stay in sight while the path is changed above them. */
export function Strip() {
  const result = outcome.value;
  if (!result) return null;
  return (
    <a class="strip" href="#results" aria-label="To the results" onClick={toResults}>
      {result.flows.slice(0, 4).map((flow, index) => (
        <span key={flow.name} style={{ '--flow': stroke(index).colour }}>
          <small>{flow.name}</small> {felt(flow).figure}
        </span>
      ))}
    </a>
  );
}

/** Two digits of a large number. */
const count = (value: number): string => Number(digits(value, 2)).toLocaleString('en');

function RunStatus() {
  const now = status.value;
  if (now.is === 'running' && now.partial) {
    return (
      <div class="run-status">
        <progress max={1} value={now.share} aria-label="Progress of the run" />
        <button type="button" onClick={stop}>
          Stop
        </button>
      </div>
    );
  }
  if (now.is === 'large') {
    return (
      <div class="run-status warning" role="alert">
        <p>
          By its beginning this would take about {count(Math.max(now.seconds, 1))} s in this tab, for at most{' '}
          {count(now.packets)} packets and {count(now.rows)} lines of results.
          {now.rows > 2e7 && ' It may need more memory than a tab has.'} What you see is the run before.
        </p>
        <button
          type="button"
          class="primary"
          onClick={() => runShorter(now.shorter)}
        >
          Run only {timeWords(seconds(now.shorter)!)}
        </button>
        <button type="button" onClick={runAnyway}>
          Run it all the same
        </button>
      </div>
    );
  }
  if (now.is === 'stopped') {
    return (
      <div class="run-status warning" role="status">
        <p>Stopped. What you see is the run before.</p>
        <button type="button" class="primary" onClick={again}>
          Run again
        </button>
      </div>
    );
  }
  if (now.is === 'failed') {
    return (
      <div class="run-status warning" role="alert">
        <p>{now.why} Your scenario is still here.</p>
        <button type="button" class="primary" onClick={again}>
          Try again
        </button>
      </div>
    );
  }
  return <div class="run-status" />;
}

function Cards({ result }: { result: Outcome }) {
  const flows = resolved(result).flows;
  const titles = (kind: string, cc?: string): string => [plain(kind), cc].filter(Boolean).join(', ');
  const most = 12;
  const grouped = together(result.flows, flowViews(scenario.value));
  const shares = sharing(
    result.links,
    result.flows,
    flows.map((flow) => flow.route),
  );
  return (
    <section aria-labelledby="felt-title">
      <h2 id="felt-title" class="quiet">
        Who feels what
      </h2>
      <ul class="cards" aria-live="polite">
        {grouped.slice(0, most).map(({ flows: same, name }) => {
          const flow = same[0]!;
          const index = result.flows.indexOf(flow);
          const said = same.length > 1 ? alike(same) : felt(flow);
          return (
            <li
              key={flow.name}
              class={`card worry-${said.worry}`}
              style={{ '--flow': stroke(index).colour }}
              data-flow={name}
            >
              <p class="who">
                <span class="swatch" aria-hidden="true" />
                {same.length > 1 ? `${name}, ${same.length} times` : name}{' '}
                <span class="kind">{titles(flow.kind, flows[index]?.tcp?.cc)}</span>
              </p>
              <p class="figure">
                <Explained>{said.figure}</Explained>
              </p>
              <p class="meaning">
                <Explained>{said.meaning}</Explained>
              </p>
              {same.length === 1 && pins.value.map((pin) => {
                const other = pin.outcome.flows.find((each) => each.name === flow.name);
                return (
                  other && (
                    <p class="was" key={pin.name}>
                      {pin.name}: <b>{felt(other).figure}</b>
                    </p>
                  )
                );
              })}
            </li>
          );
        })}
        {grouped.length > most && (
          <li class="card">
            <p class="meaning">and {grouped.length - most} more</p>
          </li>
        )}
      </ul>
      {shares.map((each) => (
        <Shares key={each.link} sharing={each} all={result.flows} />
      ))}
    </section>
  );
}

function Shares({ sharing: { link, flows, jain }, all }: { sharing: Sharing; all: readonly FlowSummary[] }) {
  const total = flows.reduce((sum, flow) => sum + (flow.goodput_mbps || 0), 0);
  const share = (flow: FlowSummary): number => (total > 0 ? (100 * (flow.goodput_mbps || 0)) / total : 0);
  return (
    <div class="shares" data-link={link}>
      <p>
        Shares of {link}: {fairness(jain)} (<Help term="jain">Jain's index</Help> {digits(jain, 2)})
      </p>
      <div
        class="bar"
        role="img"
        aria-label={flows.map((flow) => `${flow.name} ${digits(share(flow), 2)} %`).join(', ')}
      >
        {flows.map((flow) => (
          <span
            key={flow.name}
            style={{ width: `${share(flow)}%`, background: stroke(all.indexOf(flow)).colour }}
            title={`${flow.name}: ${digits(flow.goodput_mbps)} Mbit/s`}
          >
            {share(flow) >= 12 && <b>{digits(share(flow), 2)} %</b>}
          </span>
        ))}
      </div>
    </div>
  );
}

function LinksTable({ result }: { result: Outcome }) {
  const known = (value: number, text: string): string => (Number.isFinite(value) ? text : '–');
  return (
    <section class="links" aria-labelledby="links-title">
      <h2 id="links-title" class="quiet">
        Links
      </h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Links">
        <table>
          <thead>
            <tr>
              <th scope="col">Link</th>
              <th scope="col">In use</th>
              <th scope="col">
                Queue, <Help term="median">median</Help>
              </th>
              <th scope="col">
                Queue, <Help term="quantile">{'95\u00a0%'}</Help>
              </th>
              <th scope="col">Drops</th>
              <th scope="col">
                <Help term="mark">Marks</Help>
              </th>
            </tr>
          </thead>
          <tbody>
            {result.links.slice(0, 20).map((link) => (
              <tr key={link.name}>
                <th scope="row">{link.name}</th>
                <td>{known(link.utilisation, `${digits(100 * link.utilisation)} %`)}</td>
                <td>{known(link.queue_p50_ms, waiting(link.queue_p50_ms))}</td>
                <td>{known(link.queue_p95_ms, waiting(link.queue_p95_ms))}</td>
                <td>{link.drops}</td>
                <td>{link.marks}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="note">
        {result.events.toLocaleString('en')} events
        {Number.isFinite(result.wall_ms) && ` in ${digits(result.wall_ms)} ms`}.{' '}
        <Help term="hash">Hash of the rows</Help>: {result.hash}.
        {result.warnings.length > 0 && ` ${result.warnings.join(' ')}`}
      </p>
    </section>
  );
}
