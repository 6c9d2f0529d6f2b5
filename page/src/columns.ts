// Bytes from the server as a header and columns. The format is described in src/zombiescope/web/_columns.py.

export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float32Array | Float64Array;

const TYPES = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

interface Places {
  columns: Record<string, [string, number, number]>; // type, offset, count
}

export interface Unpacked<Header> {
  header: Header;
  /** A column by its name; an empty one if there is none. */
  numbers: (name: string) => Numbers;
  words: (name: string) => string[];
}

export function unpacked<Header>(buffer: ArrayBuffer, magic: string): Unpacked<Header> {
  const text = new TextDecoder();
  if (text.decode(buffer.slice(0, 8)) !== magic) throw new Error("this is not zombiescope page data");
  const length = new DataView(buffer).getUint32(8, true);
  const header = JSON.parse(text.decode(new Uint8Array(buffer, 12, length))) as Header & Places;
  const { columns } = header;
  const base = 12 + length;
  return {
    header,
    numbers: (name) => {
      const [type, offset, count] = columns[name] ?? ["u1", 0, 0];
      return new TYPES[type as keyof typeof TYPES](buffer, base + offset, count);
    },
    words: (name) => {
      const [, offset, count] = columns[name];
      return text.decode(new Uint8Array(buffer, base + offset, count)).split("\n");
    },
  };
}
