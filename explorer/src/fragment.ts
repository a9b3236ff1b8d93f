// The page's state in the address: what follows the #. Nothing of it is ever sent to a server.

/** What is shared. */
export interface Shared {
  toml: string;
  /** What is zoomed into, in seconds. */
  zoom?: [number, number];
  tour?: string;
  step?: number;
}

const MARK = 's=';
/** More than any scenario that a page can draw: a bomb is not inflated. */
const MOST = 4_000_000;

async function through(bytes: Uint8Array, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  const writer = stream.writable.getWriter();
  // A failure shows at the reading end as well; there it is awaited.
  writer.write(bytes as Uint8Array<ArrayBuffer>).catch(() => undefined);
  writer.close().catch(() => undefined);
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = stream.readable.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    parts.push(next.value as Uint8Array);
    size += next.value.length;
    if (size > MOST) {
      await reader.cancel();
      throw new Error('it is larger than any scenario');
    }
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export async function encode(shared: Shared): Promise<string> {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(shared)), new CompressionStream('deflate-raw'));
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return MARK + btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** Undefined if the fragment holds no state; an error in words if it holds a broken one. */
export async function decode(fragment: string): Promise<Shared | undefined> {
  const text = fragment.replace(/^#/, '');
  if (!text.startsWith(MARK)) return undefined;
  try {
    const binary = atob(text.slice(MARK.length).replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    const inflated = await through(bytes, new DecompressionStream('deflate-raw'));
    const found: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(inflated));
    const shared = found as Partial<Shared> | null;
    if (typeof shared?.toml !== 'string') throw new Error('it holds no scenario');
    const [from, until] = Array.isArray(shared.zoom) ? shared.zoom : [];
    return {
      toml: shared.toml,
      ...(typeof from === 'number' && typeof until === 'number' && from < until ? { zoom: [from, until] } : {}),
      ...(typeof shared.tour === 'string' ? { tour: shared.tour } : {}),
      ...(typeof shared.step === 'number' ? { step: shared.step } : {}),
    };
  } catch (error) {
    const why = error instanceof Error && error.message.startsWith('it ') ? `: ${error.message}` : '';
    throw new Error(`The link is damaged${why}: part of it may have been cut off when it was copied.`);
  }
}
