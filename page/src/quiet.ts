// The quiet time that an event is compared with: the nearest earlier time in which nothing happened.
import type { Happening } from "./data";
import { SECOND } from "./format";
import type { Range } from "./samples";

const AFTER = SECOND; // after-effects of an event
const LONG = 0.25; // of the whole: a finding that lasted longer is the node's normal state, not an event
const LONGER = 10; // the baseline is at most this many times as long as the time before the event

/** Null if there is no such time. */
export function quietTime(events: Happening[], whole: Range, at: number, length: number): Range | null {
  const isEvent = (it: Happening) => it.lane !== "finding" || (it.end - it.start) * SECOND < whole.end * LONG;
  const loud = events
    .filter(isEvent)
    .map((it) => ({ start: it.start * SECOND - length, end: it.end * SECOND + AFTER }));
  loud.push({ start: at - length, end: at + AFTER });
  const gaps = between(
    loud.sort((a, b) => a.start - b.start),
    whole,
  );
  const long = gaps.filter((it) => it.end - it.start >= length);
  // Before the event rather than after: its after-effects are not quiet time.
  const away = (it: Range) => (it.end <= at ? at - it.end : whole.end + it.start - at);
  const longest = gaps.sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, 1);
  const best = (long.length ? long : longest).sort((a, b) => away(a) - away(b))[0];
  if (!best) return null;
  return best.end <= at
    ? { start: Math.max(best.start, best.end - LONGER * length), end: best.end }
    : { start: best.start, end: Math.min(best.end, best.start + LONGER * length) };
}

/** The gaps between sorted ranges; nothing shorter than a second. */
function between(taken: Range[], whole: Range): Range[] {
  const found: Range[] = [];
  let end = whole.start;
  for (const it of [...taken, { start: whole.end, end: whole.end }]) {
    if (it.start - end > SECOND) found.push({ start: end, end: it.start });
    end = Math.max(end, it.end);
  }
  return found;
}
