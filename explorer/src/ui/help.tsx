// A word that can be asked about: with the mouse, the keys or a finger.

import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { GLOSSARY, terms, type Name } from '../glossary';

const shown = signal<{ term: Name; at: DOMRect } | undefined>(undefined);
const BOX = 'help-box';

const close = (): void => {
  shown.value = undefined;
};

export function Help({ term, children }: { term: Name; children: string }) {
  const word = useRef<HTMLButtonElement>(null);
  const open = (): void => {
    shown.value = { term, at: word.current!.getBoundingClientRect() };
  };
  return (
    <button
      ref={word}
      type="button"
      class="term"
      data-term={term}
      aria-describedby={shown.value?.term === term ? BOX : undefined}
      onMouseEnter={open}
      onMouseLeave={close}
      onFocus={open}
      onBlur={close}
      onClick={(event) => {
        // Within a label the click is for the word, not for what the label belongs to.
        event.preventDefault();
        open();
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !shown.peek()) return;
        event.stopPropagation();
        close();
      }}
    >
      {children}
    </button>
  );
}

/** A number and its unit stay on one line. */
export const tight = (text: string): string => text.replace(/(^|\d) (?=(%|ms|s|kB|BDP|Mbit\/s|packets)(?!\w))/g, '$1\u00a0');

/** A sentence with its terms to be asked about. Brackets and stops stay beside a term. */
export function Explained({ children, known }: { children: string; known?: Set<Name> }) {
  const parts = terms(children, known);
  return (
    <>
      {parts.map((part, index) => {
        if (part.term) {
          const opening = parts[index - 1]?.text.endsWith('(') ? '(' : '';
          const closing = /^[).,;:]*/.exec(parts[index + 1]?.text ?? '')![0];
          return (
            <span class="together" key={index}>
              {opening}
              <Help term={part.term}>{part.text}</Help>
              {closing}
            </span>
          );
        }
        const from = parts[index - 1]?.term ? part.text.replace(/^[).,;:]*/, '') : part.text;
        return tight(parts[index + 1]?.term ? from.replace(/\($/, '') : from);
      })}
    </>
  );
}

/** The explanation, over everything else: what scrolls would cut it off. */
export function HelpBox() {
  const box = useRef<HTMLDivElement>(null);
  const now = shown.value;
  useEffect(() => {
    if (!now) return;
    const { width, height } = box.current!.getBoundingClientRect();
    const left = Math.max(8, Math.min(now.at.left, innerWidth - width - 8));
    const below = now.at.bottom + 6;
    const top = below + height > innerHeight - 8 ? now.at.top - height - 6 : below;
    box.current!.style.translate = `${left}px ${Math.max(8, top)}px`;
    addEventListener('scroll', close, { capture: true, once: true });
    return () => removeEventListener('scroll', close, { capture: true });
  }, [now]);
  return now ? (
    <div id={BOX} class="help" role="tooltip" ref={box}>
      {GLOSSARY[now.term].means}
    </div>
  ) : null;
}
