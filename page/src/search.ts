// Which names a search matches, in bounded time.
import { matcherOf } from "./regex";

const PATIENCE = 300; // milliseconds: 80,000 names take 20; what is not done by then is not worth a frozen page
const BETWEEN = 64; // names between two looks at the clock: a name takes some milliseconds at most

/** For each name whether it matches, or in words why that cannot be said. The first name stands for everything. */
export function matching(names: string[], pattern: string): Uint8Array | string {
  const matches = matcherOf(pattern);
  if (typeof matches === "string") return matches;
  const found = new Uint8Array(names.length);
  const began = performance.now();
  for (let i = 1; i < names.length; i++) {
    if (matches(names[i])) found[i] = 1;
    if (i % BETWEEN === 0 && performance.now() - began > PATIENCE) return "too slow for so many names: stopped";
  }
  return found;
}

/** A name as a pattern that only it matches. */
export function exactly(name: string): string {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}
