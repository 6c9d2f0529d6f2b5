// Regular expressions that take time in proportion to the text, whatever they are: a search comes with a link from others, and the
// browser's own engine can be made to run for years by a few characters. All ways through a pattern are followed at once (an NFA).
// Not known here are references back and looking ahead or behind: these are what needs trying out.

export type Matcher = (name: string) => boolean;

type Test = (code: number) => boolean;
type Node =
  | { kind: "one"; test: Test; literal?: string }
  | { kind: "where"; holds: (text: string, at: number) => boolean; edge?: "^" | "$" }
  | { kind: "row"; parts: Node[] }
  | { kind: "either"; parts: Node[] }
  | { kind: "repeat"; of: Node; least: number; most: number };
type Step =
  | { op: "one"; test: Test }
  | { op: "where"; holds: (text: string, at: number) => boolean }
  | { op: "fork"; to: number[] }
  | { op: "end" };

const LONGEST = 500; // characters of a pattern: nobody types more, and parentheses in it may be nested that deep
const MOST_STEPS = 1_000; // of a compiled pattern: a name of 1,000 characters takes a million moves at most, some milliseconds
const MOST_WORK = 20_000; // while compiling: repeated empty groups make no steps, yet take time

const isWord: Test = (it) => (it >= 48 && it <= 57) || (it >= 97 && it <= 122) || (it >= 65 && it <= 90) || it === 95;
const isDigit: Test = (it) => it >= 48 && it <= 57;
const isSpace: Test = (it) => it === 32 || (it >= 9 && it <= 13) || it === 160 || it === 0xfeff;
const SETS: Record<string, Test> = { w: isWord, d: isDigit, s: isSpace };
const SIGNS: Record<string, string> = { t: "\t", n: "\n", r: "\r", f: "\f", v: "\v", "0": "\0" };

/** A function that says whether a name matches, without regard to case; or, as text, why the pattern cannot be used. */
export function matcherOf(pattern: string): Matcher | string {
  if (pattern.length > LONGEST) return `too long: ${LONGEST} characters at most`;
  try {
    const node = parsed(pattern);
    return plain(node) ?? walker(compiled(node));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function parsed(pattern: string): Node {
  let at = 0;
  const fail = (why: string): never => {
    throw new Error(`not a regular expression: ${why}`);
  };

  function either(): Node {
    const parts = [row()];
    while (pattern[at] === "|") {
      at++;
      parts.push(row());
    }
    return parts.length > 1 ? { kind: "either", parts } : parts[0];
  }

  function row(): Node {
    const parts: Node[] = [];
    while (at < pattern.length && pattern[at] !== "|" && pattern[at] !== ")") parts.push(repeated(atom()));
    return { kind: "row", parts };
  }

  function repeated(of: Node): Node {
    const counted = /^\{(\d{1,4})(?:(,)(\d{0,4}))?\}/.exec(pattern.slice(at, at + 12));
    const [least, most] =
      pattern[at] === "*"
        ? [0, Infinity]
        : pattern[at] === "+"
          ? [1, Infinity]
          : pattern[at] === "?"
            ? [0, 1]
            : counted
              ? [Number(counted[1]), counted[2] ? Number(counted[3] || Infinity) : Number(counted[1])]
              : [1, 1];
    if (least === 1 && most === 1 && !counted) return of;
    if (most < least) fail("numbers in {} are out of order");
    at += counted ? counted[0].length : 1;
    if (pattern[at] === "?") at++; // lazy or greedy, the same names match
    if (/[*+]/.test(pattern[at] ?? "")) fail("nothing to repeat");
    return { kind: "repeat", of, least, most };
  }

  function atom(): Node {
    const sign = pattern[at++];
    if (sign === "(") {
      if (pattern.startsWith("?:", at)) at += 2;
      else if (pattern[at] === "?") throw new Error("looking ahead or behind is not possible here");
      const inner = either();
      if (pattern[at++] !== ")") fail("a parenthesis is not closed");
      return inner;
    }
    if (sign === "[") return { kind: "one", test: set() };
    if (sign === ".") return { kind: "one", test: (it) => it !== 10 };
    if (sign === "^") return { kind: "where", holds: (_, place) => place === 0, edge: "^" };
    if (sign === "$") return { kind: "where", holds: (text, place) => place === text.length, edge: "$" };
    if (sign === "\\") return escaped();
    if (/[*+?]/.test(sign)) fail("nothing to repeat");
    return literal(sign);
  }

  function escaped(): Node {
    const sign = pattern[at++] ?? fail("\\ at its end");
    if (sign === "b" || sign === "B") {
      const word = (text: string, place: number) => place >= 0 && place < text.length && isWord(text.charCodeAt(place));
      const border = (text: string, place: number) => word(text, place - 1) !== word(text, place);
      return { kind: "where", holds: sign === "b" ? border : (text, place) => !border(text, place) };
    }
    const known = SETS[sign.toLowerCase()];
    if (known) return { kind: "one", test: sign === sign.toLowerCase() ? known : (it) => !known(it) };
    if (/[1-9kpP]/.test(sign)) throw new Error(`\\${sign} is not possible here`);
    return literal(coded(sign));
  }

  /** The character of an escape such as \x41, \u0041 or \t. */
  function coded(sign: string): string {
    const digits = sign === "x" ? 2 : sign === "u" ? 4 : 0;
    const hex = pattern.slice(at, at + digits);
    if (!digits || !/^[0-9a-f]+$/i.test(hex) || hex.length < digits) return SIGNS[sign] ?? sign;
    at += digits;
    return String.fromCharCode(parseInt(hex, 16));
  }

  function set(): Test {
    const tests: Test[] = [];
    const not = pattern[at] === "^";
    if (not) at++;
    const one = (): string | Test => {
      const sign = pattern[at++];
      if (sign !== "\\") return sign;
      const next = pattern[at++] ?? fail("\\ at its end");
      const known = SETS[next.toLowerCase()];
      if (known) return next === next.toLowerCase() ? known : (it) => !known(it);
      return next === "b" ? "\b" : coded(next);
    };
    while (at < pattern.length && pattern[at] !== "]") {
      const from = one();
      const range = pattern[at] === "-" && at + 1 < pattern.length && pattern[at + 1] !== "]";
      if (range) at++;
      const to = range ? one() : from;
      if (typeof from !== "string" || typeof to !== "string") {
        for (const it of new Set([from, to])) tests.push(typeof it === "string" ? equal(it) : it);
        continue;
      }
      const [low, high] = [from.charCodeAt(0), to.charCodeAt(0)];
      if (high < low) fail("a range in [] is out of order");
      tests.push((it) => (it >= low && it <= high) || (upper(it) >= low && upper(it) <= high));
    }
    if (pattern[at++] !== "]") fail("[ is not closed");
    return (it) => tests.some((test) => test(it)) !== not;
  }

  const found = either();
  return at < pattern.length ? fail("a parenthesis was never opened") : found;
}

function upper(code: number): number {
  return code >= 97 && code <= 122 ? code - 32 : code;
}

function equal(sign: string): Test {
  const code = sign.toLowerCase().charCodeAt(0);
  return (it) => it === code;
}

function literal(sign: string): Node {
  return { kind: "one", test: equal(sign), literal: sign.toLowerCase() };
}

/** A name, whole or in part, needs no steps: most searches are that. */
function plain(node: Node): Matcher | null {
  const parts = node.kind === "row" ? [...node.parts] : [];
  const edge = (it: Node | undefined, which: string) => it?.kind === "where" && it.edge === which;
  const first = edge(parts[0], "^") ? Boolean(parts.shift()) : false;
  const last = edge(parts[parts.length - 1], "$") ? Boolean(parts.pop()) : false;
  let text = "";
  for (const it of parts) {
    if (it.kind !== "one" || it.literal === undefined) return null;
    text += it.literal;
  }
  return (name) => {
    const folded = name.toLowerCase();
    if (first && last) return folded === text;
    return first ? folded.startsWith(text) : last ? folded.endsWith(text) : folded.includes(text);
  };
}

function compiled(node: Node): Step[] {
  const steps: Step[] = [];
  let work = 0;
  const add = (step: Step): number => {
    if (steps.length >= MOST_STEPS) throw new Error("too large: repeat less, or search for a part of it");
    return steps.push(step) - 1;
  };
  function emit(it: Node): void {
    if (++work > MOST_WORK) throw new Error("too large: repeat less, or search for a part of it");
    if (it.kind === "one") add({ op: "one", test: it.test });
    else if (it.kind === "where") add({ op: "where", holds: it.holds });
    else if (it.kind === "row") it.parts.forEach(emit);
    else if (it.kind === "either") {
      const fork: number[] = [];
      add({ op: "fork", to: fork });
      const ends: number[][] = [];
      for (const part of it.parts) {
        fork.push(steps.length);
        emit(part);
        const end: number[] = [];
        add({ op: "fork", to: end });
        ends.push(end);
      }
      for (const end of ends) end.push(steps.length);
    } else {
      for (let i = 0; i < it.least; i++) emit(it.of);
      if (it.most === Infinity) {
        const to = [steps.length + 1];
        const fork = add({ op: "fork", to });
        emit(it.of);
        add({ op: "fork", to: [fork] });
        to.push(steps.length);
      } else {
        const forks: number[][] = [];
        for (let i = it.least; i < it.most; i++) {
          const to = [steps.length + 1];
          add({ op: "fork", to });
          forks.push(to);
          emit(it.of);
        }
        for (const to of forks) to.push(steps.length);
      }
    }
  }
  emit(node);
  add({ op: "end" });
  return steps;
}

/** Follows all ways at once: each step is visited once for each character, however many ways lead to it. */
function walker(steps: Step[]): Matcher {
  const seen = new Int32Array(steps.length);
  let round = 0;
  let here: number[] = [];
  let next: number[] = [];
  const ways: number[] = [];

  /** Adds a step and all that follow it without a character; true if the end is among them. */
  function enter(list: number[], first: number, text: string, at: number): boolean {
    ways.push(first);
    while (ways.length) {
      const place = ways.pop()!;
      if (seen[place] === round) continue;
      seen[place] = round;
      const step = steps[place];
      if (step.op === "end") {
        ways.length = 0;
        return true;
      }
      if (step.op === "fork") ways.push(...step.to);
      else if (step.op === "one") list.push(place);
      else if (step.holds(text, at)) ways.push(place + 1);
    }
    return false;
  }

  return (name) => {
    const text = name.toLowerCase();
    here.length = 0;
    round++;
    for (let at = 0; ; at++) {
      if (enter(here, 0, text, at)) return true; // a match may begin anywhere
      if (at >= text.length) return false;
      const code = text.charCodeAt(at);
      next.length = 0;
      round++;
      for (const place of here) {
        const step = steps[place];
        if (step.op === "one" && step.test(code) && enter(next, place + 1, text, at + 1)) return true;
      }
      [here, next] = [next, here];
    }
  };
}
