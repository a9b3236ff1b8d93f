// Guided tours: files of five steps, each a scenario, what to see in it, and conditions that a test holds it to.

import { list, read, table, text, type Document, type Fields, type Value } from './document';
import { edit } from './document';
import { digits } from './quantity';
import type { Panel } from './series';

export interface Step {
  title: string;
  text: string;
  toml: string;
  claims: string[];
  /** Where a number of a law comes from. */
  law: string;
  zoom?: [number, number];
  /** Show the step before beside it. */
  compare: boolean;
  /** The plots that it is about: they come first. */
  look: Panel['id'][];
}

/** What a question comes to: the runs that show it, and a text with their numbers, `{NAME.figure}`. */
export interface Solution {
  text: string;
  claims: string[];
  law: string;
  runs: { name: string; says: string; toml: string }[];
}

export interface Tour {
  id: string;
  title: string;
  summary: string;
  question: string;
  /** Where who tries it begins; without it at the last step. */
  start?: string;
  answer: Solution;
  steps: Step[];
}

const files = import.meta.glob<string>('./tours/*.toml', { query: '?raw', import: 'default', eager: true });

/** The order in which a lecture would take them. */
const ORDER = [
  ...['bufferbloat', 'slow-start', 'sawtooth', 'cubic', 'htcp', 'codel', 'bbr', 'rtt-unfairness', 'l4s'],
  'household',
];

let all: Tour[] | undefined;

/** Read when the first of them is asked for: the page's first plot does not wait for it. */
export const tours = (): Tour[] =>
  (all ??= Object.entries(files)
    .map(([path, file]) => tourOf(path.replace(/^.*\/|\.toml$/g, ''), file))
    .sort((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id)));

/** A scenario of its own, or the one before with some values set. */
function scenarioOf(found: Fields, before: string): string {
  const base = found['scenario'] === undefined ? before : text(found['scenario']).trimStart();
  const changes = found['set'] as Fields | undefined;
  if (!changes) return base;
  return edit(base, (document) =>
    Object.entries(changes).forEach(([path, value]) => put(document, path.split('.'), value!)),
  );
}

function tourOf(id: string, file: string): Tour {
  const found = read(file);
  let toml = text(found['scenario']).trimStart();
  const steps = list(found['step']).map((step): Step => {
    toml = scenarioOf(step, toml);
    const zoom = step['zoom'] as [number, number] | undefined;
    return {
      title: text(step['title']),
      text: text(step['text']).trim(),
      toml,
      claims: words(step['claims']),
      law: text(step['law']),
      compare: step['compare'] === true,
      look: words(step['look']) as Panel['id'][],
      ...(zoom ? { zoom } : {}),
    };
  });
  const start = found['start'] === undefined ? undefined : scenarioOf(table(found['start']), toml);
  const answer = table(found['answer']);
  return {
    id,
    title: text(found['title']),
    summary: text(found['summary']),
    question: text(found['question']).trim(),
    ...(start === undefined ? {} : { start }),
    answer: {
      text: text(answer['text']).trim(),
      claims: words(answer['claims']),
      law: text(answer['law']),
      runs: list(answer['run']).map((run) => ({
        name: text(run['name']),
        says: text(run['says']),
        toml: scenarioOf(run, start ?? toml),
      })),
    },
    steps,
  };
}

function words(value: Value | undefined): string[] {
  return (value as string[] | undefined) ?? [];
}

/** The names of the figures that stand in a text. */
export const named = (text: string): string[] => [...text.matchAll(/\{([^}]+)\}/g)].map((found) => found[1]!);

/** `flow.NAME.key` goes to the flow of that name, everything else down the tables. */
function put(document: Document, [first, second, ...rest]: string[], value: Value): void {
  if (first === 'flow') {
    const flow = list(document.flow).find((each) => each['name'] === second);
    if (!flow) throw new Error(`there is no flow ${second}`);
    flow[rest[0]!] = value;
  } else if (second === undefined) document[first!] = value;
  else document[first!] = { ...(document[first!] as Fields | undefined), [second]: value };
}

/** Counts in full, as the page's tables have them. */
export const figure = (value: number): string =>
  Number.isInteger(value) ? String(value) : digits(value, value >= 1000 ? 4 : 3);

/** The text in parts: words, and the numbers of the run that stand in them. */
export function filled(words: string, of: Record<string, number>): { text: string; isNumber: boolean }[] {
  return words.split(/(\{[^}]+\})/).map((part) => {
    const name = /^\{(.*)\}$/.exec(part)?.[1];
    if (name === undefined) return { text: part, isNumber: false };
    const value = of[name];
    return { text: value === undefined ? '…' : figure(value), isNumber: true };
  });
}
