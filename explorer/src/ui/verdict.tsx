// The first thing on the page: who gains, who suffers, and what helps.

import { edit, isUntouched, outcome, pins, ran, stored, toml, tour } from '../state';
import { read } from '../document';
import { tours } from '../tours';
import { remedies, sentences, verdict, type Remedy } from '../verdict';
import { pin } from './header';
import { Explained } from './help';
import { go } from './tour';

/** Keep the run, to be compared with, and put another queue there. */
function take(remedy: Remedy): void {
  if (!pins.peek().length) pin();
  edit('remedy', (document) => {
    const { dumbbell } = document;
    if (dumbbell !== null && typeof dumbbell === 'object' && !Array.isArray(dumbbell)) dumbbell['queue'] = remedy.queue;
  });
}

export function VerdictPanel() {
  const result = outcome.value;
  if (!result || tour.value) return null;
  const found = verdict(result);
  const said = sentences(found);
  if (!said.length) return null;
  const isShown = ran.value === toml.value && stored.value === undefined;
  const offered = found.worry > 0 && isShown ? remedies(result, read(toml.value)) : [];
  return (
    <section class={`verdict worry-${found.worry}`} aria-labelledby="verdict-title" data-worry={found.worry}>
      <h2 id="verdict-title" class="hidden">
        Who gains and who suffers
      </h2>
      <div aria-live="polite">
        {said.map((text) => (
          <p key={text}>
            <Explained>{text}</Explained>
          </p>
        ))}
      </div>
      {offered.length > 0 && (
        <p class="remedies">
          {offered.map((each) => (
            <button type="button" class="primary" key={each.queue} onClick={() => take(each)} data-remedy={each.queue}>
              {each.label}
            </button>
          ))}{' '}
          or move the slider of the queue's length.
        </p>
      )}
      {isUntouched.value && (
        <p class="note">
          New here?{' '}
          <button type="button" class="link" onClick={() => go(tours()[0]!, 0)} data-do="first-tour">
            Take the first tour
          </button>
          , five steps long.
        </p>
      )}
    </section>
  );
}
