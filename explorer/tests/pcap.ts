/** A pcap file of raw IP: `count` datagrams of 100 bytes of payload, 10 ms apart. */
export function datagrams(count: number): Uint8Array<ArrayBuffer> {
  const length = 128;
  const file = new Uint8Array(24 + count * (16 + length));
  const view = new DataView(file.buffer);
  [0xa1b2c3d4, 0x00040002, 0, 0, 65535, 101].forEach((word, at) => view.setUint32(4 * at, word, true));
  for (let number = 0; number < count; number++) {
    const at = 24 + number * (16 + length);
    const stamp = [Math.floor(number / 100), (number % 100) * 10_000, length, length];
    stamp.forEach((word, place) => view.setUint32(at + 4 * place, word, true));
    const packet = [0x45, 0, 0, length, 0, number, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    file.set([...packet, 15, 160, 19, 136, 0, 108, 0, 0], at + 16);
  }
  return file;
}
