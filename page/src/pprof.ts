// The samples as a pprof profile: protocol buffers, written by hand, as there are only a few fields (profile.proto of google/pprof).
import { PROCESS } from "./data";
import type { Bundle } from "./data";
import type { Stack } from "./exports";
import { secondsEach } from "./samples";

class Message {
  private readonly bytes: number[] = [];

  private varint(value: number): void {
    let rest = value;
    while (rest > 127) {
      this.bytes.push((rest % 128) | 128);
      rest = Math.floor(rest / 128);
    }
    this.bytes.push(rest);
  }

  number(field: number, value: number): this {
    if (value) {
      this.varint(field * 8);
      this.varint(value);
    }
    return this;
  }

  numbers(field: number, values: number[]): this {
    const inner = new Message();
    for (const it of values) inner.varint(it);
    return this.message(field, inner);
  }

  message(field: number, inner: Message | Uint8Array): this {
    const bytes = inner instanceof Message ? inner.bytes : inner;
    this.varint(field * 8 + 2);
    this.varint(bytes.length);
    for (const it of bytes) this.bytes.push(it);
    return this;
  }

  done(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.bytes);
  }
}

export function pprofOf(bundle: Bundle, stacks: Stack[]): Uint8Array<ArrayBuffer> {
  const { tree, header } = bundle;
  const texts = new Map<string, number>([["", 0]]);
  const text = (words: string) => {
    if (!texts.has(words)) texts.set(words, texts.size);
    return texts.get(words)!;
  };
  const timed = header.unit === "nanoseconds";
  const [type, unit] = timed ? ["cpu", "nanoseconds"] : ["samples", "count"];
  const kind = new Message().number(1, text(type)).number(2, text(unit));
  const profile = new Message().message(1, kind);
  const used = new Set<number>();
  for (const { labels, weight } of stacks) {
    const functions = labels.filter((it) => tree.kinds[it] !== PROCESS);
    const comm = labels.find((it) => tree.kinds[it] === PROCESS);
    functions.forEach((it) => used.add(it));
    // The innermost first; the process is a label, as in our other exports.
    const sample = new Message().numbers(1, functions.reverse()).numbers(2, [Math.round(weight)]);
    if (comm !== undefined) sample.message(3, new Message().number(1, text("comm")).number(2, text(tree.names[comm])));
    profile.message(2, sample);
  }
  for (const it of used) {
    // A name's own number stands for its function and for its place: names have no addresses here. 0 is the root, which is in no stack.
    profile.message(4, new Message().number(1, it).message(4, new Message().number(1, it)));
    profile.message(5, new Message().number(1, it).number(2, text(tree.names[it])).number(4, text(tree.modules[it])));
  }
  const period = header.hz ? Math.round(1e9 / header.hz) : 0;
  if (period && secondsEach(bundle)) {
    profile.message(11, new Message().number(1, text("cpu")).number(2, text("nanoseconds"))).number(12, period);
  }
  if (header.clock === "unix") profile.number(9, Number(BigInt(header.origin) / 1000n) * 1000);
  profile.number(10, header.length);
  const encoder = new TextEncoder();
  for (const words of texts.keys()) profile.message(6, encoder.encode(words));
  return profile.done();
}
