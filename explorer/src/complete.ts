// What can be written at a place of a scenario file, from its JSON Schema.

import type { Catalogue } from './engine';

export interface Suggested {
  /** Where what is being written begins. */
  from: number;
  isValue: boolean;
  options: { label: string; detail?: string; info?: string; apply?: string }[];
}

interface Schema {
  $ref?: string;
  $defs?: Record<string, Schema>;
  type?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
  description?: string;
  default?: unknown;
}

function follow(root: Schema, schema: Schema | undefined): Schema | undefined {
  const name = schema?.$ref?.replace('#/$defs/', '');
  return name === undefined
    ? schema
    : { ...root.$defs?.[name], description: schema?.description ?? root.$defs?.[name]?.description };
}

/** The table that a schema may be, itself or one of its choices. */
function tableOf(root: Schema, schema: Schema | undefined): Schema | undefined {
  const found = follow(root, schema);
  if (found?.properties) return found;
  if (found?.items) return tableOf(root, found.items);
  return found?.anyOf?.map((choice) => tableOf(root, choice)).find((choice) => choice !== undefined);
}

function words(root: Schema, schema: Schema | undefined): string[] {
  const found = follow(root, schema);
  if (!found) return [];
  const own = [...(found.enum ?? []), ...(found.const === undefined ? [] : [found.const])].map(String);
  return [
    ...own,
    ...(found.type === 'boolean' ? ['true', 'false'] : []),
    ...(found.anyOf ?? []).flatMap((each) => words(root, each)),
  ];
}

/** The table that the place is in: the last header above it, then inline tables that are open on its line. */
export function place(text: string, at: number): { path: string[]; line: string; open: string } {
  const before = text.slice(0, at);
  const line = before.slice(before.lastIndexOf('\n') + 1);
  const headers = [...before.slice(0, before.length - line.length).matchAll(/^[ \t]*\[\[?\s*([^\]\n]+?)\s*\]\]?/gm)];
  const path = headers.length
    ? headers[headers.length - 1]![1]!.split('.').map((part) => part.trim().replaceAll('"', ''))
    : [];
  let open = line;
  const inner: string[] = [];
  let start = 0;
  const text_ = line.replace(/"[^"]*"/g, (quoted) => '_'.repeat(quoted.length));
  for (let index = 0; index < text_.length; index++) {
    if (text_[index] === '{') {
      inner.push(/([\w.-]+)\s*=\s*\[?\s*$/.exec(text_.slice(start, index))?.[1] ?? '');
      start = index + 1;
    } else if (text_[index] === '}') {
      inner.pop();
      start = index + 1;
    } else if (text_[index] === ',' && inner.length) start = index + 1;
  }
  if (inner.length) open = line.slice(start);
  return { path: [...path, ...inner.filter(Boolean)], line, open };
}

export function suggestions(text: string, at: number, schema: object, cards?: Catalogue): Suggested | undefined {
  const root = schema as Schema;
  const { path, line, open } = place(text, at);
  if (/^[^"]*(?:"[^"]*"[^"]*)*#/.test(line)) return undefined;
  const header = /^\s*(\[\[?)\s*([\w.-]*)$/.exec(line);
  if (header) {
    const options = Object.entries(root.properties ?? {})
      .filter(([, each]) => tableOf(root, each))
      .map(([label, each]) => ({ label, info: each.description }));
    return { from: at - header[2]!.length, isValue: false, options };
  }
  let table: Schema | undefined = root;
  for (const step of path) table = tableOf(root, table?.properties?.[step]);
  const given = /^\s*([\w-]+)\s*=\s*(?:\[\s*(?:"[^"]*"\s*,\s*)*)?("?[\w.-]*)$/.exec(open);
  if (given) {
    const [, key, written] = given;
    const names = [...words(root, table?.properties?.[key!]), ...byCatalogue(key!, cards)];
    const options = [...new Set(names)].map((label) => {
      const isPlain = label === 'true' || label === 'false';
      return {
        label: isPlain ? label : `"${label}"`,
        apply: isPlain ? label : text[at] === '"' && written!.startsWith('"') ? `"${label}` : `"${label}"`,
        detail: titleOf(label, cards),
      };
    });
    return options.length ? { from: at - written!.length, isValue: true, options } : undefined;
  }
  const key = /^\s*([\w-]*)$/.exec(open);
  if (!key || !table?.properties) return undefined;
  const options = Object.entries(table.properties)
    .filter(([name]) => name !== 'params')
    .map(([label, each]) => ({
      label,
      apply: `${label} = `,
      info: each.description,
      detail: each.default === undefined ? undefined : `default ${JSON.stringify(each.default)}`,
    }));
  return { from: at - key[1]!.length, isValue: false, options };
}

function byCatalogue(key: string, cards?: Catalogue): string[] {
  const lists: Record<string, { name: string }[] | undefined> = {
    cc: cards?.algorithms,
    cc_turns: cards?.algorithms,
    stack: cards?.stacks,
    receiver_stack: cards?.stacks,
    queue: cards?.queues,
    back_queue: cards?.queues,
    discipline: cards?.queues,
    app: cards?.applications,
  };
  return (lists[key] ?? []).map((card) => card.name);
}

const titleOf = (name: string, cards?: Catalogue): string | undefined =>
  cards &&
  [...cards.algorithms, ...cards.queues, ...cards.applications, ...cards.stacks].find((card) => card.name === name)
    ?.title;
