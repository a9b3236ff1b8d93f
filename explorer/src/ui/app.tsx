import { useEffect, useState } from 'preact/hooks';
import { lazy, Suspense } from 'preact/compat';
import { back, chosen, forth, notice, offer, open, outcome, problems, stored, tour } from '../state';
import { FlowsPanel } from './flows';
import { toResults } from './jump';
import { Header, Pins, openFile } from './header';
import { PathPanel } from './path';
import { Results, Strip } from './results';
import { HelpBox } from './help';
import { TourPanel } from './tour';
import { VerdictPanel } from './verdict';
import { WhyPanel } from './why';

const Editor = lazy(() => import('./editor'));
const Packets = lazy(() => import('./packets'));

export function App() {
  const [isEditing, setEditing] = useState(false);
  const [isClose, setClose] = useState(false);
  const [isTall, setTall] = useState(false);
  useEffect(() => {
    const drop = (event: DragEvent): void => {
      event.preventDefault();
      const file = event.dataTransfer?.files[0];
      if (event.type === 'drop' && file) void openFile(file);
    };
    const keys = (event: KeyboardEvent): void => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'z') return;
      // Where text is typed the field has a history of its own.
      if ((event.target as Element).closest('input[type=text], .editor')) return;
      event.preventDefault();
      if (event.shiftKey) forth();
      else back();
    };
    const paste = (event: ClipboardEvent): void => {
      const text = event.clipboardData?.getData('text/plain') ?? '';
      // What looks like a scenario, and is not meant for a field.
      if (!/^\s*\w+\s*=/m.test(text) || (event.target as Element | null)?.closest?.('input, select, .editor')) return;
      event.preventDefault();
      open(text);
    };
    window.addEventListener('paste', paste);
    window.addEventListener('dragover', drop);
    window.addEventListener('drop', drop);
    window.addEventListener('keydown', keys);
    return () => {
      window.removeEventListener('paste', paste);
      window.removeEventListener('dragover', drop);
      window.removeEventListener('drop', drop);
      window.removeEventListener('keydown', keys);
    };
  }, []);
  const hasSide = tour.value !== undefined || chosen.value !== undefined;
  return (
    <>
      <a class="skip" href="#results" onClick={toResults}>
        Skip to the results
      </a>
      <Header isEditing={isEditing} toggleEditor={() => setEditing(!isEditing)} />
      {notice.value !== undefined && (
        <div class="notice" role="status">
          <p>{notice.value}</p>
          <button type="button" onClick={() => (notice.value = undefined)} aria-label="Close">
            ×
          </button>
        </div>
      )}
      {offer.value && (
        <div class="notice" role="status">
          <p>
            {offer.value.says}{' '}
            <button
              type="button"
              class="link"
              data-do="offer"
              onClick={() => {
                offer.peek()!.act();
                offer.value = undefined;
              }}
            >
              {offer.value.label}
            </button>
          </p>
          <button type="button" onClick={() => (offer.value = undefined)} aria-label="Close">
            ×
          </button>
        </div>
      )}
      <VerdictPanel />
      <main class={`${hasSide ? 'with-side' : ''} ${tour.value ? 'with-tour' : ''}`}>
        <div class="controls">
          {stored.value !== undefined && (
            <p class="stored">
              Stored result{' '}
              <b>
                {stored.value.name}: {stored.value.made}
              </b>
              . Change anything and it is simulated here.
            </p>
          )}
          {problems.value.length > 0 && <Problems show={isEditing ? undefined : () => setEditing(true)} />}
          {isEditing && (
            <section class="panel" aria-labelledby="text-title">
              <h2 id="text-title">Text</h2>
              <Suspense fallback={<p class="note">Loading the editor …</p>}>
                <Editor />
              </Suspense>
            </section>
          )}
          <PathPanel />
          <FlowsPanel />
        </div>
        <div class="results" id="results" tabIndex={-1}>
          <Pins />
          <Results />
          {outcome.value &&
            (isClose ? (
              <Suspense fallback={<p class="note">Loading …</p>}>
                <Packets />
              </Suspense>
            ) : (
              <button type="button" class="wide" onClick={() => setClose(true)} data-do="packets">
                Look at single packets
              </button>
            ))}
        </div>
        {hasSide && (
          <aside class={isTall ? 'side tall' : 'side'}>
            <div class="grip">
              <Strip />
              <button type="button" onClick={() => setTall(!isTall)} aria-expanded={isTall}>
                {isTall ? 'Less' : 'More'} of the text
              </button>
            </div>
            <TourPanel />
            <WhyPanel />
          </aside>
        )}
      </main>
      {!hasSide && <Strip />}
      <HelpBox />
    </>
  );
}

const FORMAT = 'docs/scenario.md';

/** How to fix the problem; a page of the documentation that it names opens here. */
function Fix({ children }: { children: string }) {
  const [page, setPage] = useState('');
  const [before, after] = children.split(FORMAT);
  if (after === undefined) return <>{children}</>;
  const show = (): void => {
    if (page) setPage('');
    else void import('../../../docs/scenario.md?raw').then(({ default: text }) => setPage(text));
  };
  return (
    <>
      {before}
      <button type="button" class="link" aria-expanded={page !== ''} onClick={show}>
        {FORMAT}
      </button>
      {after}
      {page && <pre class="page">{page}</pre>}
    </>
  );
}

function Problems({ show }: { show: (() => void) | undefined }) {
  return (
    <section class="problems" role="alert" aria-label="What is wrong with the scenario">
      <ul>
        {problems.value.slice(0, 6).map((problem, index) => (
          <li key={index}>
            {problem.line !== undefined && <b>line {problem.line}: </b>}
            {problem.path ? <code>{problem.path}</code> : 'the text'} {problem.message}
            {problem.fix && (
              <>
                <br />
                <Fix>{problem.fix}</Fix>
              </>
            )}
          </li>
        ))}
      </ul>
      <p class="note">What is drawn is the run before.</p>
      {show && (
        <button type="button" onClick={show}>
          Open the text
        </button>
      )}
    </section>
  );
}
