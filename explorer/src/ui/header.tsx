// What concerns the whole page: open, share, take away, compare, go back.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { isCapture, openCapture } from '../captured';
import { pathWords, read } from '../document';
import { about, command, csv, fileName, hosted, png, save, shared, svg } from '../export';
import {
  address,
  back,
  scenario,
  duration,
  forth,
  isOwnScale,
  notice,
  open,
  outcome,
  pins,
  ran,
  toml,
  zoom,
  type Pinned,
} from '../state';
import { choice, type Choice } from '../theme';
import { drawn, order } from './results';
import { list as tourList } from './tour';

const KEPT_PINS = 3;
const isLocal = /^(127\.|localhost$|\[::1\])/.test(location.hostname);

export async function openFile(file: File): Promise<void> {
  if (await isCapture(file)) return openCapture(file);
  if (file.size > 1_000_000) {
    notice.value = `${file.name} is too large for a scenario file (${Math.round(file.size / 1e6)} MB). A stored result is shown by: tailback explore FOLDER`;
    return;
  }
  open(await file.text());
}

async function copy(text: string, what: string, more = ''): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notice.value = `${what} is copied.${more}`;
  } catch {
    // Some browsers forbid it outside https: then it can be copied by hand.
    window.prompt(`${what}:`, text);
  }
}

export function pin(): void {
  const result = outcome.peek();
  if (!result) return;
  const number = pins.peek().length + 1;
  pins.value = [...pins.peek(), { name: `run ${number}`, outcome: result, toml: toml.peek() }].slice(-KEPT_PINS);
}

export function Header({ isEditing, toggleEditor }: { isEditing: boolean; toggleEditor: () => void }) {
  const file = useRef<HTMLInputElement>(null);
  const name = scenario.value['name'];
  const drawing = (): string =>
    svg(
      drawn.peek(),
      order.peek(),
      zoom.peek() ?? [0, duration.peek()],
      about(outcome.peek()!, read(ran.peek() ?? toml.peek())),
    );
  const pictures = async (): Promise<void> => {
    try {
      save(`${fileName(name)}.png`, await png(drawing()), 'image/png');
    } catch (error) {
      notice.value = (error as Error).message;
    }
  };
  return (
    <header class="top">
      <h1>
        tailback <small>explorer</small>
      </h1>
      <nav aria-label="Page">
        <button type="button" onClick={tourList} data-do="tours">
          Tours
        </button>
        <button type="button" onClick={() => file.current!.click()}>
          Open…
        </button>
        <input
          ref={file}
          type="file"
          accept=".toml,text/plain,.pcap,.pcapng,.cap,.gz,.zst"
          hidden
          onChange={(event) => {
            const chosen = event.currentTarget.files?.[0];
            if (chosen) void openFile(chosen);
            event.currentTarget.value = '';
          }}
        />
        <button type="button" aria-pressed={isEditing} onClick={toggleEditor} data-do="text">
          Text
        </button>
        <button
          type="button"
          onClick={() =>
            void address().then((to) => {
              const { text, what, more } = shared(to, name, toml.peek(), isLocal, hosted());
              return copy(text, what, more);
            })
          }
          data-do="share"
        >
          Share
        </button>
        <Menu title="Take away">
            <button type="button" onClick={() => save(`${fileName(name)}.toml`, toml.peek(), 'application/toml')}>
              Scenario (TOML)
            </button>
            <button
              type="button"
              disabled={!outcome.value}
              onClick={() => save(`${fileName(name)}.toml`, outcome.peek()!.toml, 'application/toml')}
            >
              Scenario, recording what is shown
            </button>
            <button type="button" onClick={() => void copy(command(name), 'The command')}>
              Command that repeats it
            </button>
            <button type="button" disabled={!outcome.value} onClick={() => void pictures()}>
              Picture (PNG)
            </button>
            <button
              type="button"
              disabled={!outcome.value}
              onClick={() => save(`${fileName(name)}.svg`, drawing(), 'image/svg+xml')}
            >
              Picture (SVG)
            </button>
            {Object.entries(outcome.value?.tables ?? {})
              .filter(([, table]) => table.rows > 0)
              .map(([table, { rows }]) => (
                <button
                  type="button"
                  key={table}
                  onClick={() => save(`${fileName(name)}-${table}.csv`, csv(outcome.peek()!, table), 'text/csv')}
                >
                  {table.replaceAll('_', ' ')}: {rows} rows (CSV)
                </button>
              ))}
        </Menu>
        <button type="button" disabled={!outcome.value} onClick={pin} data-do="pin">
          Pin this run
        </button>
        <button type="button" onClick={back} title="Undo" aria-label="Undo">
          ↶
        </button>
        <button type="button" onClick={forth} title="Redo" aria-label="Redo">
          ↷
        </button>
        <label class="theme">
          <span class="hidden">Colours</span>
          <select value={choice.value} onChange={(event) => (choice.value = event.currentTarget.value as Choice)}>
            <option value="system">As the system</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
      </nav>
    </header>
  );
}

/** A menu that closes by its own button, Escape, a choice, or a click elsewhere. */
function Menu({ title, children }: { title: string; children: ComponentChildren }) {
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const outside = (event: Event): void => {
      if (!menu.current!.contains(event.target as Node)) menu.current!.open = false;
    };
    addEventListener('pointerdown', outside);
    addEventListener('focusin', outside);
    return () => {
      removeEventListener('pointerdown', outside);
      removeEventListener('focusin', outside);
    };
  }, []);
  return (
    <details
      ref={menu}
      class="menu"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        event.currentTarget.open = false;
        event.currentTarget.querySelector('summary')!.focus();
      }}
    >
      <summary>{title}</summary>
      <div onClick={() => (menu.current!.open = false)}>{children}</div>
    </details>
  );
}

export function Pins() {
  if (!pins.value.length) return null;
  const here = pathWords(scenario.value);
  /** Runs over another path cannot be distinguished by their lines. */
  const elsewhere = (pin: Pinned): string => {
    const there = pathWords(read(pin.toml));
    return there === here ? '' : `, on another path: ${there}`;
  };
  return (
    <ul class="pins" aria-label="Pinned runs">
      {pins.value.map((each, index) => (
        <li key={index}>
          <i class="dashes" aria-hidden="true" />
          {each.step !== undefined ? (
            <span>
              Dashed: {each.name}, “{each.step}”{elsewhere(each)}
            </span>
          ) : (
            <>
              <input
                type="text"
                value={each.name}
                aria-label="Name of the pinned run"
                onChange={(event) => {
                  const name = event.currentTarget.value;
                  pins.value = pins.peek().map((pin, at) => (at === index ? { ...pin, name } : pin));
                }}
              />
              <span>dashed{elsewhere(each)}</span>
            </>
          )}
          {each.step === undefined && (
            <button type="button" onClick={() => open(each.toml)} title="Go back to its scenario">
              Open
            </button>
          )}
          <button
            type="button"
            onClick={() => (pins.value = pins.peek().filter((_, at) => at !== index))}
            aria-label={`Unpin ${each.name}`}
          >
            ×
          </button>
        </li>
      ))}
      <li class="plain">
        <label>
          <input
            type="checkbox"
            checked={isOwnScale.value}
            onChange={(event) => (isOwnScale.value = event.currentTarget.checked)}
          />{' '}
          Scale to this run
        </label>
      </li>
    </ul>
  );
}
