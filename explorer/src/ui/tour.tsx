// A tour beside the plots: what to see, with the numbers of the run on the screen.

import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Engine, type Outcome } from '../engine';
import { forPictures, read, write } from '../document';
import { figures } from '../figures';
import { open, outcome, pins, status, toml, tour, zoom } from '../state';
import { filled, tours, type Step, type Tour } from '../tours';

const BEFORE = 'the step before';
/** Runs the step before, so that the page's own run can still be asked about. */
let second: Engine | undefined;

export function go(of: Tour, number: number): void {
  const step = of.steps[number]!;
  open(step.toml);
  zoom.value = step.zoom;
  tour.value = { id: of.id, step: number };
}

/** The last scenario of the tour that was another one. */
const before = (of: Tour, number: number): Step | undefined =>
  of.steps
    .slice(0, number)
    .reverse()
    .find((step) => step.toml !== of.steps[number]!.toml);

const unpinned = (): typeof pins.value => pins.peek().filter((pin) => pin.name !== BEFORE);

function leave(): void {
  tour.value = undefined;
  pins.value = unpinned();
}

export function TourPanel() {
  const now = tour.value;
  if (!now) return null;
  const found = tours.find((each) => each.id === now.id);
  return found ? <Steps of={found} number={Math.min(Math.max(now.step, 0), found.steps.length - 1)} /> : <List />;
}

function List() {
  return (
    <section class="tour" aria-labelledby="tours-title">
      <header>
        <h2 id="tours-title">Tours</h2>
        <button type="button" class="close" onClick={leave} aria-label="Close the tours">
          ×
        </button>
      </header>
      <p class="note">Five steps each, and a question to try. Every number comes from the run beside it.</p>
      <ol class="tours">
        {tours.map((each) => (
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

function Steps({ of, number }: { of: Tour; number: number }) {
  const step = of.steps[number]!;
  const earlier = useSignal<{ step: Step; outcome: Outcome } | undefined>(undefined);
  const wanted = before(of, number);
  const needs = wanted !== undefined && (step.compare || step.text.includes('{before.'));

  useEffect(() => {
    pins.value = unpinned();
    if (!needs) return;
    const abort = new AbortController();
    const show = (result: Outcome): void => {
      earlier.value = { step: wanted, outcome: result };
      if (step.compare) pins.value = [...unpinned(), { name: BEFORE, outcome: result, toml: wanted.toml }];
    };
    if (earlier.peek()?.step === wanted) show(earlier.peek()!.outcome);
    else {
      second ??= new Engine();
      // A comparison that fails leaves the step readable: its numbers of the step before are dots.
      second.run(write(forPictures(read(wanted.toml))), { signal: abort.signal }).then(show, () => undefined);
    }
    return () => abort.abort();
  }, [of, number]);

  const isOwn = toml.value === step.toml;
  const isReady = outcome.value !== undefined && status.value.is === 'ready';
  const known = isReady ? figures(outcome.value!) : {};
  const past = needs && earlier.value?.step === wanted ? figures(earlier.value!.outcome) : {};
  const all = {
    ...known,
    ...Object.fromEntries(Object.entries(past).map(([name, value]) => [`before.${name}`, value])),
  };
  return (
    <section class="tour" aria-labelledby="tour-title">
      <header>
        <h2 id="tour-title">{of.title}</h2>
        <span class="note">
          {number + 1} of {of.steps.length}
        </span>
        <button type="button" class="close" onClick={leave} aria-label="End the tour">
          ×
        </button>
      </header>
      <div class="text" aria-live="polite">
        <h3>{step.title}</h3>
        <p>
          {filled(step.text, all).map((part, index) =>
            part.isNumber ? (
              <b class="number" key={index}>
                {part.text}
              </b>
            ) : (
              part.text
            ),
          )}
        </p>
        {step.law && <p class="source">{step.law}</p>}
        {!isOwn && (
          <p class="note">
            You have changed the scenario: the numbers are those of your run.{' '}
            <button type="button" class="link" onClick={() => go(of, number)}>
              Back to the step
            </button>
          </p>
        )}
        {number === of.steps.length - 1 && (
          <p class="question">
            <b>To try:</b> {of.question}
          </p>
        )}
      </div>
      <footer>
        <button type="button" onClick={() => (number > 0 ? go(of, number - 1) : (tour.value = { id: '', step: 0 }))}>
          {number > 0 ? 'Back' : 'All tours'}
        </button>
        {number < of.steps.length - 1 ? (
          <button type="button" class="primary" onClick={() => go(of, number + 1)} data-do="next">
            Next
          </button>
        ) : (
          <button type="button" class="primary" onClick={() => (tour.value = { id: '', step: 0 })}>
            All tours
          </button>
        )}
      </footer>
    </section>
  );
}
