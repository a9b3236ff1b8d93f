// Guided tours: files of five steps, each a scenario, what to see in it, and conditions that a test holds it to.

import { list, read, text, type Document, type Fields, type Value } from './document';
import { edit } from './document';
import { digits } from './quantity';

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
}

export interface Tour {
  id: string;
  title: string;
  summary: string;
  question: string;
  steps: Step[];
}

const files = import.meta.glob<string>('./tours/*.toml', { query: '?raw', import: 'default', eager: true });

/** The order in which a lecture would take them. */
const ORDER = ['bufferbloat', 'slow-start', 'sawtooth', 'cubic', 'htcp', 'codel', 'bbr', 'rtt-unfairness', 'l4s'];

export const tours: Tour[] = Object.entries(files)
  .map(([path, file]) => tourOf(path.replace(/^.*\/|\.toml$/g, ''), file))
  .sort((a, b) => ORDER.indexOf(a.id) - ORDER.indexOf(b.id));

function tourOf(id: string, file: string): Tour {
  const found = read(file);
  let toml = text(found['scenario']).trimStart();
  const steps = list(found['step']).map((step) => {
    if (step['scenario'] !== undefined) toml = text(step['scenario']).trimStart();
    const changes = step['set'] as Fields | undefined;
    if (changes)
      toml = edit(toml, (document) =>
        Object.entries(changes).forEach(([path, value]) => put(document, path.split('.'), value!)),
      );
    const zoom = step['zoom'] as [number, number] | undefined;
    return {
      title: text(step['title']),
      text: text(step['text']).trim(),
      toml,
      claims: (step['claims'] as string[] | undefined) ?? [],
      law: text(step['law']),
      compare: step['compare'] === true,
      ...(zoom ? { zoom } : {}),
    };
  });
  return {
    id,
    title: text(found['title']),
    summary: text(found['summary']),
    question: text(found['question']).trim(),
    steps,
  };
}

/** `flow.NAME.key` goes to the flow of that name, everything else down the tables. */
function put(document: Document, [first, second, ...rest]: string[], value: Value): void {
  if (first === 'flow') {
    const flow = list(document.flow).find((each) => each['name'] === second);
    if (!flow) throw new Error(`there is no flow ${second}`);
    flow[rest[0]!] = value;
  } else if (second === undefined) document[first!] = value;
  else document[first!] = { ...(document[first!] as Fields | undefined), [second]: value };
}

/** The text in parts: words, and the numbers of the run that stand in them. */
export function filled(words: string, of: Record<string, number>): { text: string; isNumber: boolean }[] {
  return words.split(/(\{[^}]+\})/).map((part) => {
    const name = /^\{(.*)\}$/.exec(part)?.[1];
    if (name === undefined) return { text: part, isNumber: false };
    const value = of[name];
    return { text: value === undefined ? '…' : digits(value, value >= 1000 ? 4 : 3), isNumber: true };
  });
}
