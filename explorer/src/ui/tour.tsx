// A tour beside the plots: what to see, with the numbers of its own runs.

import { batch, signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { figuresOf, remember, runBeside } from '../aside';
import { said, figures } from '../figures';
import type { Name } from '../glossary';
import { offer, open, outcome, pins, ran, toml, tour, zoom } from '../state';
import { figure, filled, named, tours, type Step, type Tour } from '../tours';
import { Explained } from './help';

const BEFORE = 'the step before';
/** What the reader had when the first tour was opened. */
const mine = signal<string | undefined>(undefined);
/** A panel that the reader asked for is where the keys go next. */
let isAsked = false;

function show(text: string, to: { id: string; step: number }, at?: [number, number]): void {
  isAsked = tour.peek()?.id !== to.id;
  batch(() => {
    if (!tour.peek()?.id) mine.value ??= toml.peek();
    offer.value = undefined;
    open(text);
    zoom.value = at;
    tour.value = to;
  });
}

export function go(of: Tour, number: number): void {
  const step = of.steps[number]!;
  show(step.toml, { id: of.id, step: number }, step.zoom);
}

export function list(): void {
  isAsked = true;
  tour.value = { id: '', step: 0 };
}

/** The step that the page shows. */
export function shownStep(): Step | undefined {
  const now = tour.value;
  return now && tours().find((each) => each.id === now.id)?.steps[now.step];
}

/** The last scenario of the tour that was another one. */
const before = (of: Tour, number: number): Step | undefined =>
  of.steps
    .slice(0, number)
    .reverse()
    .find((step) => step.toml !== of.steps[number]!.toml);

const unpinned = (): typeof pins.value => pins.peek().filter((pin) => pin.step === undefined);

function leave(): void {
  const had = mine.peek();
  batch(() => {
    tour.value = undefined;
    pins.value = unpinned();
    mine.value = undefined;
    if (had !== undefined && had !== toml.peek())
      offer.value = {
        says: 'What you see is the scenario of the tour.',
        label: 'Back to my scenario',
        act: () => open(had),
      };
  });
  document.querySelector<HTMLElement>('[data-do=tours]')?.focus();
}

export function TourPanel() {
  const now = tour.value;
  if (!now) return null;
  const found = tours().find((each) => each.id === now.id);
  return (
    <div class="touring" onKeyDown={(event) => event.key === 'Escape' && leave()}>
      {found ? <Steps of={found} number={Math.min(Math.max(now.step, 0), found.steps.length - 1)} /> : <List />}
    </div>
  );
}

/** The heading of a panel: opened by the reader it takes the focus, so that Tab goes on inside. */
function Heading({ id, children }: { id: string; children: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (isAsked) heading.current!.focus();
    isAsked = false;
  }, [children]);
  return (
    <h2 id={id} ref={heading} tabIndex={-1}>
      {children}
    </h2>
  );
}

function List() {
  return (
    <section class="tour" aria-labelledby="tours-title">
      <header>
        <Heading id="tours-title">Tours</Heading>
        <button type="button" class="close" onClick={leave} aria-label="Close the tours">
          ×
        </button>
      </header>
      <p class="note">Five steps each, and a question to try. Every number comes from the run beside it.</p>
      <ol class="tours">
        {tours().map((each) => (
          <li key={each.id}>
            <button type="button" onClick={() => go(each, 0)} data-tour={each.id}>
              {each.title}
              <small>{each.summary}</small>
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** A text with its numbers, and its terms to be asked about. */
function Filled({ text, of, known }: { text: string; of: Record<string, number>; known: Set<Name> }) {
  return (
    <>
      {filled(text, of).map((part, index) =>
        part.isNumber ? (
          <b class="number" key={index}>
            {part.text}
          </b>
        ) : (
          <Explained key={index} known={known}>
            {part.text}
          </Explained>
        ),
      )}
    </>
  );
}

const prefixed = (name: string, of: Record<string, number> | undefined): Record<string, number> =>
  Object.fromEntries(Object.entries(of ?? {}).map(([figure, value]) => [`${name}.${figure}`, value]));

function Steps({ of, number }: { of: Tour; number: number }) {
  const step = of.steps[number]!;
  const wanted = before(of, number);
  const needs = wanted !== undefined && (step.compare || step.text.includes('{before.'));
  const isOwn = toml.value === step.toml;
  const isLast = number === of.steps.length - 1;
  const section = useRef<HTMLElement>(null);

  useEffect(() => {
    pins.value = unpinned();
    if (!needs) return;
    const abort = new AbortController();
    // A comparison that fails leaves the step readable: its numbers of the step before are dots.
    runBeside(wanted.toml, abort.signal).then(
      (result) => {
        if (step.compare && !abort.signal.aborted)
          pins.value = [...unpinned(), { name: BEFORE, outcome: result, toml: wanted.toml, step: wanted.title }];
      },
      () => undefined,
    );
    return () => abort.abort();
  }, [of, number]);

  // The step's numbers stay the step's, whatever the reader changes.
  useEffect(() => {
    if (ran.value === step.toml) return remember(step.toml, outcome.peek()!);
    if (isOwn) return;
    const abort = new AbortController();
    runBeside(step.toml, abort.signal).catch(() => undefined);
    return () => abort.abort();
  }, [step, isOwn, ran.value]);

  useEffect(() => section.current?.parentElement?.parentElement?.scrollTo({ top: 0 }), [of, number]);

  const all = { ...figuresOf.value[step.toml], ...prefixed('before', wanted && figuresOf.value[wanted.toml]) };
  const known = new Set<Name>();
  return (
    <section class="tour" aria-labelledby="tour-title" ref={section}>
      <header>
        <Heading id="tour-title">{of.title}</Heading>
        <span class="note">
          {number + 1} of {of.steps.length}
        </span>
        <button type="button" class="close" onClick={leave} aria-label="End the tour" title="End the tour (Escape)">
          ×
        </button>
      </header>
      <div class="text" aria-live="polite">
        <h3>{step.title}</h3>
        <p class={isOwn ? undefined : 'past'}>
          <Filled text={step.text} of={all} known={known} />
        </p>
        {step.law && <p class="source">{step.law}</p>}
        {!isOwn && (
          <div class="yours">
            <Yours names={[...named(step.text), ...(isLast ? named(of.answer.text) : [])]} />
            <button type="button" class="link" onClick={() => go(of, number)} data-do="back-to-step">
              Back to the step
            </button>
          </div>
        )}
        {isLast && <Question of={of} key={of.id} />}
      </div>
      <footer>
        <button type="button" onClick={() => (number > 0 ? go(of, number - 1) : list())}>
          {number > 0 ? 'Back' : 'All tours'}
        </button>
        {isLast && (
          <button type="button" onClick={list}>
            All tours
          </button>
        )}
        <Onward of={of} number={number} />
      </footer>
    </section>
  );
}

function Onward({ of, number }: { of: Tour; number: number }) {
  const isLast = number === of.steps.length - 1;
  const next = tours()[tours().indexOf(of) + 1];
  if (isLast && !next) return null;
  return (
    <button
      type="button"
      class="primary"
      onClick={() => (isLast ? go(next!, 0) : go(of, number + 1))}
      data-do={isLast ? 'next-tour' : 'next'}
    >
      {isLast ? `Next tour: ${next!.title}` : 'Next'}
    </button>
  );
}

/** The figures that the step speaks of, as they are in the reader's run. */
function Yours({ names }: { names: string[] }) {
  const isDone = ran.value === toml.value && outcome.value !== undefined;
  const now = isDone ? figures(outcome.value!) : undefined;
  // Of the runs of an answer and of the step before the figure is the same one.
  const found = [...new Set(names.map((name) => /(flow|link)\..*$/.exec(name)![0]))]
    .map((name) => ({ name, ...said(name), value: now?.[name] }))
    .filter(({ value }) => value !== undefined || !now);
  return (
    <>
      <p>
        <b>In your run</b>
        {now ? '' : ' …'}
      </p>
      {now && (
        <dl>
          {found.map(({ name, what, unit, value }) => (
            <div key={name}>
              <dt>{what}</dt>
              <dd>
                {figure(value!)} {unit}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

function Question({ of }: { of: Tour }) {
  const isOpen = useSignal(false);
  const { answer } = of;
  const known = new Set<Name>();
  useEffect(() => {
    if (!isOpen.value) return;
    const abort = new AbortController();
    for (const run of answer.runs) runBeside(run.toml, abort.signal).catch(() => undefined);
    return () => abort.abort();
  }, [of, isOpen.value]);
  const all = Object.assign({}, ...answer.runs.map((run) => prefixed(run.name, figuresOf.value[run.toml])));
  const shown = (text: string): void => show(text, { id: of.id, step: of.steps.length - 1 });
  return (
    <div class="question">
      <p>
        <b>To try:</b> <Explained known={known}>{of.question}</Explained>
      </p>
      {of.start !== undefined && (
        <button type="button" onClick={() => shown(of.start!)} data-do="start">
          Set it up
        </button>
      )}
      <details onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
        <summary>Show the answer</summary>
        <p>
          <Filled text={answer.text} of={all} known={known} />
        </p>
        {answer.law && <p class="source">{answer.law}</p>}
        <p class="runs">
          {answer.runs.map((run) => (
            <button type="button" class="link" key={run.name} onClick={() => shown(run.toml)}>
              {run.says}
            </button>
          ))}
        </p>
      </details>
    </div>
  );
}
