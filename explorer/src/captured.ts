// A packet capture that was dropped on the page or chosen: read here by the engine's worker, and uploaded nowhere.

import type { OpenedResult } from './engine/opened';
import { engine, failed, notice, show } from './state';

/** First bytes: pcap in either byte order and resolution, pcapng, and both of them in gzip or zstd. */
const BEGINNINGS = [
  [0xd4, 0xc3, 0xb2, 0xa1],
  [0xa1, 0xb2, 0xc3, 0xd4],
  [0x4d, 0x3c, 0xb2, 0xa1],
  [0xa1, 0xb2, 0x3c, 0x4d],
  [0x0a, 0x0d, 0x0d, 0x0a],
  [0x28, 0xb5, 0x2f, 0xfd],
  [0x1f, 0x8b],
];
/** The worker holds it twice, and a tab has about two gigabytes. */
const MOST_BYTES = 600_000_000;

export async function isCapture(file: Blob): Promise<boolean> {
  const start = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  return BEGINNINGS.some((wanted) => wanted.every((byte, at) => start[at] === byte));
}

/** Read a capture and show it as a stored result is shown. */
export async function openCapture(file: File): Promise<void> {
  if (file.size > MOST_BYTES) {
    notice.value = `${file.name} has ${Math.round(file.size / 1e6)} MB, more than a tab can hold. Read it with: tailback pcap flows FILE`;
    return;
  }
  try {
    const outcome = await engine.capture(new Uint8Array(await file.arrayBuffer()), file.name);
    const found: OpenedResult = {
      kind: 'result',
      name: file.name,
      toml: outcome.toml,
      made: `captured, ${outcome.events.toLocaleString('en')} packets`,
      outcome,
      rows: Object.fromEntries(Object.entries(outcome.tables).map(([name, table]) => [name, table.rows])),
      load: () => Promise.resolve(),
    };
    await show(found);
    notice.value = outcome.warnings.join(' ') || undefined;
  } catch (error) {
    failed(error);
  }
}
