// Whether two ranges may be compared: a difference of too few samples is chance, and one with the fault on both sides hides it.
import type { Bundle, Happening } from "./data";
import { SECOND } from "./format";
import { EVERYBODY, firstRow, ownOf } from "./samples";
import type { Range } from "./samples";

// A share of 10 % in 30 samples is known to ±11 points (twice the standard error): with fewer no difference means anything.
const FEWEST = 30;
const ALWAYS = 0.9; // of the whole: what lasts longer is in every baseline there is
const MOSTLY = 0.5; // of a range: a finding that holds that long is what the range shows

/** Why `baseline` cannot be what `chosen` is compared with; null if it can. */
export function refusal(bundle: Bundle, whole: Range, chosen: Range, baseline: Range): string | null {
  const overlap = shared(chosen, baseline);
  // Borders are moved outwards to ticks: ranges that touch may share one.
  if (overlap > 2 * bundle.header.tick && !(chosen.start <= whole.start && chosen.end >= whole.end)) {
    return "the two ranges overlap: choose a baseline outside the selection";
  }
  const few = (range: Range, name: string) => {
    const count = samplesIn(bundle, range);
    const words = count === 0 ? "no sample" : count === 1 ? "one sample" : `only ${count} samples`;
    return count < FEWEST ? `${name} has ${words}: fewer than ${FEWEST} show nothing but chance; choose a longer one` : null;
  };
  return few(chosen, "the selection") ?? few(baseline, "the baseline") ?? fault(bundle, whole, chosen, baseline);
}

/** How many samples a range has. Merged ones and long ones count by their weight. */
function samplesIn(bundle: Bundle, range: Range): number {
  const { hz, unit, samples } = bundle.header;
  const rows = firstRow(bundle, range.end) - firstRow(bundle, range.start);
  if (samples === bundle.rows.at.length || (unit === "nanoseconds" && !hz)) return rows;
  const weight = ownOf(bundle, range, EVERYBODY).reduce((sum, it) => sum + it, 0);
  return Math.round(unit === "nanoseconds" ? (weight / SECOND) * hz : weight);
}

/** A baseline inside the fault: all findings that hold in the selection hold in it too, and there is a time without them. */
function fault(bundle: Bundle, whole: Range, chosen: Range, baseline: Range): string | null {
  const findings = bundle.header.events.filter((it) => it.lane === "finding" && it.end > it.start);
  const passing = findings.filter((it) => it.end - it.start < (ALWAYS * (whole.end - whole.start)) / SECOND);
  const holds = (it: Happening, range: Range) =>
    shared({ start: it.start * SECOND, end: it.end * SECOND }, range) >= MOSTLY * (range.end - range.start);
  const here = passing.filter((it) => holds(it, chosen));
  const alike = (it: Happening) => passing.some((other) => other.name === it.name && holds(other, baseline));
  if (!here.length || !here.every(alike)) return null;
  // The shortest are the fault; what lasts long is what it happened in.
  const shortest = [...here].sort((a, b) => a.end - a.start - (b.end - b.start));
  const names = [...new Set(shortest.map((it) => it.name))].slice(0, 3).join(", ");
  return `the baseline lies inside the fault: ${names} held then too; choose a time without it`;
}

function shared(one: Range, other: Range): number {
  return Math.max(0, Math.min(one.end, other.end) - Math.max(one.start, other.start));
}
