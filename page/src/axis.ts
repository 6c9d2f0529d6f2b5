// The time axis, and above it the overview: the whole time, and which part of it is visible.
import type { Bundle } from "./data";
import { SECOND, clock, day, localClock } from "./format";
import type { Grid, Range } from "./samples";
import type { Palette } from "./theme";

const STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
];
const APART = 92; // pixels between two labels
const FONT = '11px ui-sans-serif, system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

export function paintAxis(
  context: CanvasRenderingContext2D,
  bundle: Bundle,
  view: Range,
  palette: Palette,
  width: number,
  height: number,
): void {
  const span = view.end - view.start;
  const least = ((span / width) * APART) / SECOND;
  const step = (STEPS.find((it) => it >= least) ?? Math.ceil(least / 86400) * 86400) * SECOND;
  const decimals = step < SECOND ? 3 : 0; // milliseconds
  // Labels fall on whole steps of the clock, not of the capture.
  const offset = Number(BigInt(bundle.header.origin) % BigInt(Math.round(step)));
  context.font = FONT;
  context.textBaseline = "middle";
  let before = day(bundle, view.start); // the bar on top has the first day
  for (let time = Math.ceil((view.start + offset) / step) * step - offset; time <= view.end; time += step) {
    const x = ((time - view.start) / span) * width;
    const local = localClock(bundle, time);
    const middle = local ? 10 : height / 2;
    context.fillStyle = palette.rule;
    context.fillRect(Math.round(x), height - 6, 1, 6);
    const date = day(bundle, time);
    const label = clock(bundle, time, decimals);
    context.fillStyle = palette.soft;
    if (x < width - 50) context.fillText(date !== before ? `${date.slice(5)} ${label}` : label, x + 3, middle);
    if (local && x < width - 50) context.fillText(local, x + 3, middle + 14);
    before = date;
  }
}

export function paintOverview(
  context: CanvasRenderingContext2D,
  grid: Grid,
  whole: Range,
  view: Range,
  palette: Palette,
  width: number,
  height: number,
): void {
  context.fillStyle = palette.raised;
  context.fillRect(0, 0, width, height);
  const columns = Math.max(1, Math.round(width));
  const means = new Float64Array(columns);
  let most = 0;
  for (let x = 0; x < columns; x++) {
    const from = Math.floor((x / columns) * grid.cells);
    const to = Math.max(from + 1, Math.floor(((x + 1) / columns) * grid.cells));
    means[x] = (grid.sums[Math.min(to, grid.cells)] - grid.sums[from]) / (to - from) || 0;
    if (means[x] > most) most = means[x];
  }
  context.fillStyle = palette.soft;
  context.globalAlpha = 0.55;
  for (let x = 0; x < columns && most; x++) {
    const tall = (means[x] / most) * (height - 3);
    context.fillRect(x, height - tall, 1, tall);
  }
  context.globalAlpha = 1;
  const scale = width / (whole.end - whole.start);
  const left = view.start * scale;
  const right = view.end * scale;
  context.fillStyle = palette.paper;
  context.globalAlpha = 0.72;
  context.fillRect(0, 0, left, height);
  context.fillRect(right, 0, width - right, height);
  context.globalAlpha = 1;
  context.strokeStyle = palette.chosen;
  context.lineWidth = 1;
  context.strokeRect(left + 0.5, 0.5, Math.max(right - left - 1, 2), height - 1);
}
