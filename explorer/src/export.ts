// What can be taken away: text, rows, pictures.

import { plain } from './applications';
import { pathWords, type Document } from './document';
import type { Outcome } from './engine';
import { digits, rateWords, timeWords } from './quantity';
import { resolved } from './series';
import { strokeOf, colours, type Drawn } from './ui/chart';
import { sentences, verdict } from './verdict';
import { felt } from './words';

export function save(name: string, content: BlobPart, type: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A table as `tailback export --format csv` writes it: words in place of codes, nothing for what is missing. */
export function csv(outcome: Outcome, name: string): string {
  const table = outcome.tables[name];
  if (!table) return '';
  const columns = Object.entries(table.columns);
  const quoted = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [columns.map(([column]) => quoted(column)).join(',')];
  for (let row = 0; row < table.rows; row++) {
    lines.push(
      columns
        .map(([column, values]) => {
          const value = values[row];
          const words = table.labels[column];
          if (words?.length) return quoted(words[Number(value)] ?? '');
          return typeof value === 'number' && Number.isNaN(value) ? '' : quoted(String(value));
        })
        .join(','),
    );
  }
  return `${lines.join('\n')}\n`;
}

export const fileName = (name: unknown): string => String(name || 'scenario').replace(/[^\w.-]+/g, '-') || 'scenario';

/** The words of a shell, quoted where they must be. */
export const command = (name: unknown): string => `tailback run ${fileName(name)}.toml --out results/${fileName(name)}`;

const escaped = (text: string): string => text.replace(/[<>&"]/g, (char) => `&#${char.charCodeAt(0)};`);

const SIZE = { width: 900, height: 240, left: 64, right: 16, top: 34, bottom: 34 };

function ticks(low: number, high: number, count: number): number[] {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10) * power;
  const out: number[] = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step)
    out.push(Number(tick.toPrecision(12)));
  return out;
}

/** What stands above the plots of a picture: a picture is looked at without its page. */
export interface About {
  name: string;
  /** The verdict, then the path, its flows, seed and length, and what each flow had of it. */
  lines: string[];
}

const LINE = 17;

/** Scenario, parameters and outcome of a run, for the head of its picture. */
export function about(outcome: Outcome, document: Document): About {
  const { duration_ps, links } = resolved(outcome);
  const seed = String(document['seed'] ?? 1);
  const queues = links
    .filter((link) => outcome.links.some((each) => each.name === link.name))
    .map((link) => `${link.name}: ${[link.rate_bps === null ? '' : rateWords(link.rate_bps), link.queue.discipline].filter(Boolean).join(', ')}`);
  const flows = outcome.flows
    .slice(0, 8)
    .map((flow) => `${flow.name} (${[plain(flow.kind), flow.cc].filter(Boolean).join(', ')}): ${felt(flow).figure}, ${felt(flow).meaning}`);
  const more = outcome.flows.length - flows.length;
  return {
    name: String(document['name'] || 'tailback'),
    lines: [
      ...sentences(verdict(outcome)),
      `${pathWords(document)}; ${timeWords(duration_ps / 1e12)} simulated; seed ${seed}`,
      queues.slice(0, 4).join('; ') + (queues.length > 4 ? `; and ${queues.length - 4} more links` : ''),
      ...flows,
      ...(more > 0 ? [`and ${more} more flows`] : []),
    ],
  };
}

/** Where others reach an explorer, if the server of this page says so. */
export const hosted = (): string =>
  document.querySelector<HTMLMetaElement>('meta[name="tailback-hosted"]')?.content ?? '';

/**
 * What others can use: the address, on the page that is hosted for them if this one is not. Where there is none, and the
 * address leads to this machine only, it is the scenario with how to open it.
 */
export function shared(
  href: string,
  name: unknown,
  toml: string,
  isLocal: boolean,
  elsewhere = '',
): { text: string; what: string; more: string } {
  if (!isLocal) return { text: href, what: 'The link', more: '' };
  if (elsewhere) {
    const fragment = href.replace(/^[^#]*/, '');
    return { text: `${elsewhere.replace(/#.*$/, '')}${fragment}`, what: 'The link', more: ` It opens ${elsewhere}` };
  }
  const file = `${fileName(name)}.toml`;
  const how = `# A scenario for tailback (pip install tailback). Save it as ${file}, then:\n#   tailback explore ${file}\n#   tailback run ${file}\n\n`;
  return {
    text: how + toml,
    what: 'The scenario',
    more: ' The address of this page works on this machine only, so the text is copied with how to open it.',
  };
}

/** All plots as one drawing under a head, in the page's colours, of what is zoomed into. */
export function svg(
  panels: readonly Drawn[],
  order: readonly string[],
  [from, until]: [number, number],
  { name, lines: said }: About,
): string {
  const head = 30 + LINE * said.length;
  const { ink, soft, grid, paper } = colours();
  const inner = { width: SIZE.width - SIZE.left - SIZE.right, height: SIZE.height - SIZE.top - SIZE.bottom };
  const x = (t: number): number => SIZE.left + ((t - from) / (until - from)) * inner.width;
  const parts = panels.map((panel, index) => {
    const lines = [
      ...panel.lines,
      ...panel.pinned.flatMap((pin) =>
        pin.lines.map((line) => ({ ...line, label: `${line.label} · ${pin.name}`, isPinned: true })),
      ),
    ];
    let most = 0;
    for (const line of lines)
      for (let at = 0; at < line.x.length; at++)
        if (line.x[at]! >= from && line.x[at]! <= until && line.y[at]! > most) most = line.y[at]!;
    most = most > 0 ? most * 1.08 : 1;
    const top = head + index * SIZE.height + SIZE.top;
    const y = (value: number): number => top + inner.height * (1 - value / most);
    const out = [
      `<text x="${SIZE.left}" y="${top - 14}" font-weight="bold" fill="${ink}">${escaped(`${panel.title} (${panel.unit})`)}</text>`,
    ];
    for (const tick of ticks(0, most, 4)) {
      out.push(
        `<path d="M${SIZE.left} ${y(tick).toFixed(1)}h${inner.width}" stroke="${grid}"/><text x="${SIZE.left - 8}" y="${(y(tick) + 4).toFixed(1)}" text-anchor="end" fill="${soft}">${digits(tick)}</text>`,
      );
    }
    for (const tick of ticks(from, until, 10))
      out.push(
        `<text x="${x(tick).toFixed(1)}" y="${top + inner.height + 18}" text-anchor="middle" fill="${soft}">${Number(tick.toFixed(6))} s</text>`,
      );
    let label = SIZE.left + 240;
    for (const line of lines) {
      const { colour, dash } = strokeOf(line, order, ink);
      const isPinned = 'isPinned' in line;
      let path = '';
      let dots = '';
      let isDown = false;
      let lastX = -9;
      for (let at = 0; at < line.x.length; at++) {
        const [t, value] = [line.x[at]!, line.y[at]!];
        if (t < from || t > until) continue;
        if (!Number.isFinite(value)) {
          isDown = false;
          continue;
        }
        if (line.points) dots += `<circle cx="${x(t).toFixed(1)}" cy="${y(value).toFixed(1)}" r="2" fill="${colour}"/>`;
        // A third of a pixel is as fine as a picture of this width needs.
        else if (!isDown || x(t) - lastX > 0.3) {
          path += `${isDown ? 'L' : 'M'}${x(t).toFixed(1)} ${y(value).toFixed(1)}`;
          [isDown, lastX] = [true, x(t)];
        }
      }
      out.push(
        path &&
          `<path d="${path}" fill="none" stroke="${colour}" stroke-width="1.3"${isPinned ? ' stroke-opacity=".6" stroke-dasharray="5 5"' : dash ? ` stroke-dasharray="${dash.join(' ')}"` : ''}/>`,
        dots,
      );
      out.push(
        `<path d="M${label} ${top - 18}h16" stroke="${colour}" stroke-width="2"/><text x="${label + 20}" y="${top - 14}" fill="${ink}">${escaped(line.label)}</text>`,
      );
      label += 40 + 6.6 * line.label.length;
    }
    for (const mark of panel.marks) {
      if (mark.t < from || mark.t > until) continue;
      out.push(
        `<circle cx="${x(mark.t).toFixed(1)}" cy="${y(mark.y).toFixed(1)}" r="2.4" fill="none" stroke="#D55E00"/>`,
      );
    }
    return out.join('');
  });
  const height = head + panels.length * SIZE.height;
  const widest = Math.floor((SIZE.width - SIZE.left - SIZE.right) / 6.4);
  const cut = (text: string): string => (text.length > widest ? `${text.slice(0, widest - 1)}…` : text);
  const words = [
    `<text x="${SIZE.left}" y="22" font-size="15" font-weight="bold" fill="${ink}">${escaped(cut(name))}</text>`,
    ...said.map((line, at) => `<text x="${SIZE.left}" y="${22 + LINE * (at + 1)}" fill="${soft}">${escaped(cut(line))}</text>`),
  ].join('');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIZE.width} ${height}" width="${SIZE.width}" height="${height}" font-family="system-ui, sans-serif" font-size="12"><title>${escaped(name)}</title><desc>${escaped(said.join('\n'))}</desc><rect width="100%" height="100%" fill="${paper}"/>${words}${parts.join('')}</svg>`;
}

export async function png(drawing: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(drawing)}`;
  await image.decode();
  const canvas = document.createElement('canvas');
  const SHARP = 2;
  [canvas.width, canvas.height] = [image.naturalWidth * SHARP, image.naturalHeight * SHARP];
  canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) =>
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error('The browser could not make the picture.'))),
      'image/png',
    ),
  );
}
