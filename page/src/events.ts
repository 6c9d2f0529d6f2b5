// Rows of events: a tick for a line of the kernel log or a fix, a bar for as long as a finding lasted.
import type { Happening } from "./data";
import { SECOND } from "./format";
import type { Lane } from "./lanes";
import type { Range } from "./samples";
import type { Palette } from "./theme";

const REACH = 5; // pixels: this near counts as a hit

export function paintEvents(
  context: CanvasRenderingContext2D,
  lane: Lane,
  view: Range,
  palette: Palette,
  width: number,
  reading: number | null,
): void {
  context.fillStyle = palette.raised;
  context.fillRect(0, 0, width, lane.height);
  for (const it of lane.events) {
    const [from, to] = edges(it, view, width);
    if (to < -2 || from > width + 2) continue;
    if (it.lane !== "finding") {
      context.fillStyle = it.lane === "fix" ? palette.baseline : palette.event;
      context.fillRect(from - 1, 1, 2, lane.height - 2);
      context.beginPath();
      context.arc(from, lane.height / 2, 3.5, 0, 7);
      context.fill();
      continue;
    }
    context.fillStyle = it.finding === reading ? palette.chosen : palette.soft;
    context.globalAlpha = it.finding === reading ? 1 : 0.72;
    context.beginPath();
    context.roundRect(from, 3, Math.max(to - from, 3), lane.height - 6, 2);
    context.fill();
    context.globalAlpha = 1;
  }
}

function edges(it: Happening, view: Range, width: number): [number, number] {
  const x = (time: number) => ((time * SECOND - view.start) / (view.end - view.start)) * width;
  return [x(it.start), x(it.end)];
}

/** The event at a point, the nearest if there are several. */
export function eventAt(lane: Lane, view: Range, width: number, x: number): Happening | null {
  let best: Happening | null = null;
  let least = REACH;
  for (const it of lane.events) {
    const [from, to] = edges(it, view, width);
    const away = Math.max(from - x, x - Math.max(to, from + 3), 0);
    if (away < least) {
      least = away;
      best = it;
    }
  }
  return best;
}
