// Going to where something was: a finding, a moment of its evidence. The panel, the lanes and the tables do the same.
import { batch } from "@preact/signals";
import { SECOND, clock, lasting } from "./format";
import type { Range } from "./samples";
import type { State } from "./state";

const AROUND = 3 * SECOND; // shown on both sides of a moment

/** Seconds since 1970 as a time on the axis. */
export function onAxis(state: State, at: number): number {
  const origin = BigInt(state.bundle.header.origin);
  const whole = Math.floor(at);
  return Number(BigInt(whole) * 1_000_000_000n - origin) + (at - whole) * SECOND;
}

export function rangeOf(state: State, span: { start: number; end: number }): Range {
  return { start: onAxis(state, span.start), end: onAxis(state, span.end) };
}

/** In words where a range lies if it is not all on the axis. */
export function outside(state: State, range: Range): string {
  if (!state.bundle.header.length) return "";
  if (range.end < 0) return `ended ${lasting(-range.end)} before the recording begins`;
  if (range.start > state.whole.end) return "after the recording ends";
  return range.start < -SECOND ? `began ${lasting(-range.start)} before the recording` : "";
}

/** Choose the time of a finding and show it; of what is not on the axis, say so. */
export function visit(state: State, place: number): void {
  const finding = state.bundle.header.case?.findings[place];
  if (!finding) return;
  const range = rangeOf(state, finding.span);
  const where = outside(state, range);
  batch(() => {
    state.reading.value = place;
    state.notice.value = where && `${finding.sign} ${where}${range.end < 0 ? ": there is nothing to show of it" : ""}`;
    state.baseline.value = null;
    if (range.end < 0 || range.start > state.whole.end) {
      state.choose(null);
      return;
    }
    const around = Math.max((range.end - Math.max(range.start, 0)) * 0.25, AROUND);
    state.choose(range);
    state.show({ start: Math.max(range.start, 0) - around, end: range.end + around });
  });
}

/** The seconds around a reading. */
export function moment(state: State, at: number): void {
  const time = onAxis(state, at);
  if (time < 0 || time > state.whole.end) {
    const words = time < 0 ? `${lasting(-time)} before the recording begins` : "after the recording ends";
    state.notice.value = `${clock(state.bundle, time)} is ${words}: there is nothing to show of it`;
    return;
  }
  batch(() => {
    state.notice.value = "";
    state.choose({ start: time - SECOND, end: time + SECOND });
    state.show({ start: time - AROUND * 3, end: time + AROUND * 3 });
  });
}
