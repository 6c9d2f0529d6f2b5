// The heatmap: columns are stretches of time, rows are offsets within them, from below to above. Zoomed to minutes a
// column is a second and a row 20 ms; zoomed out both grow, and a cell shows the fullest fifth of its time: a burst of a
// second is still seen in twelve hours, while the noise of single samples is not.
import type { Bundle } from "./data";
import { SECOND } from "./format";
import type { Grid, Range } from "./samples";
import type { Palette } from "./theme";

export type Box = [left: number, top: number, width: number, height: number];
export interface Level {
  column: number;
  rows: number;
}

const PARTS = 5; // of a cell: the fullest is shown
const ENOUGH = 100_000; // cells read for the scale: of twelve hours of 20 ms, one in twenty
const NARROWEST = 3; // pixels of a column
const WIDE_ENOUGH = 30; // pixels for a tenth of a second before columns get that short
const LEVELS: Level[] = [
  { column: 0.1 * SECOND, rows: 5 },
  ...[1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600].map((it) => ({ column: it * SECOND, rows: 50 })),
  ...[1, 5, 25, 125, 625, 3125].map((days) => ({ column: days * 86400 * SECOND, rows: 50 })),
];

/** The resolution of the heatmap for a time range and a width; never finer than its cells. */
export function levelOf(view: Range, width: number, cell: number): Level {
  const fits = (it: Level) =>
    it.column / it.rows >= cell &&
    (it.column / (view.end - view.start)) * width >= (it.rows < 50 ? WIDE_ENOUGH : NARROWEST);
  return LEVELS.find(fits) ?? LEVELS[LEVELS.length - 1];
}

/** How busy a range of cells is, in weight per 20 ms. */
function mean(grid: Grid, first: number, end: number): number {
  const from = Math.min(Math.round(first), grid.cells);
  const to = Math.min(Math.round(end), grid.cells);
  return to > from ? (grid.sums[to] - grid.sums[from]) / (to - from) : 0;
}

/** What a cell of the heatmap shows. */
function heat(grid: Grid, first: number, count: number): number {
  if (count < PARTS) return mean(grid, first, first + count);
  let most = 0;
  for (let part = 0; part < PARTS; part++) {
    most = Math.max(most, mean(grid, first + (part * count) / PARTS, first + ((part + 1) * count) / PARTS));
  }
  return most;
}

const scales = new WeakMap<Grid, Map<number, number>>();

/** The value of the darkest shade at a level: the 99.9th percentile of cells that are not empty. */
export function scaleOf(grid: Grid, level: Level, cell: number): number {
  let known = scales.get(grid);
  if (!known) scales.set(grid, (known = new Map<number, number>()));
  const count = level.column / level.rows / cell;
  let found = known.get(count);
  if (found === undefined) known.set(count, (found = measured(grid, count)));
  return found;
}

function measured(grid: Grid, count: number): number {
  const bins = new Uint32Array(1024);
  const step = count < PARTS ? count : count / PARTS;
  const stride = step * Math.max(1, Math.floor(grid.cells / step / ENOUGH));
  let seen = 0;
  for (let place = 0; place < grid.cells; place += stride) {
    const value = mean(grid, place, place + step);
    if (value > 0) {
      seen++;
      bins[Math.min(1023, Math.floor((value / grid.most) * 1023))]++;
    }
  }
  let left = Math.floor(seen / 1000);
  let bin = 1023;
  while (bin > 0 && bins[bin] <= left) left -= bins[bin--];
  return ((bin + 1) / 1023) * grid.most || 1;
}

let image: HTMLCanvasElement | null = null;

/** Paint the visible part; during a search, matching time in the colour of matches. */
export function paintHeatmap(
  context: CanvasRenderingContext2D,
  bundle: Bundle,
  grid: Grid,
  found: Grid | null,
  view: Range,
  palette: Palette,
  width: number,
  height: number,
): void {
  const level = levelOf(view, width, bundle.header.cell);
  const { column, rows } = level;
  const { cell } = bundle.header;
  const first = Math.floor(view.start / column);
  const columns = Math.ceil(view.end / column) - first;
  const count = column / rows / cell;
  const full = scaleOf(grid, level, cell);
  const pixels = new ImageData(columns, rows);
  const data = new Uint32Array(pixels.data.buffer);
  const shades = found ? palette.grey : palette.heat;
  for (let x = 0; x < columns; x++) {
    for (let row = 0; row < rows; row++) {
      const place = (first + x) * (column / cell) + row * count;
      if (place >= grid.cells) continue;
      const value = heat(grid, place, count);
      const target = (rows - 1 - row) * columns + x;
      data[target] = shades[value > 0 ? Math.min(255, 24 + Math.floor((value / full) * 231)) : 0];
      if (!found || !value) continue;
      const match = heat(found, place, count);
      if (match > 0) data[target] = palette.found[Math.min(255, Math.floor((match / full) * 255))];
    }
  }
  image ??= document.createElement("canvas");
  image.width = columns;
  image.height = rows;
  image.getContext("2d")!.putImageData(pixels, 0, 0);
  const each = (column / (view.end - view.start)) * width;
  context.imageSmoothingEnabled = false;
  context.drawImage(image, ((first * column - view.start) / column) * each, 0, columns * each, height);
}

/** The time of the cell at a point. */
export function cellAt(level: Level, view: Range, x: number, y: number, width: number, height: number): Range {
  const { column, rows } = level;
  const start = Math.floor((view.start + (x / width) * (view.end - view.start)) / column) * column;
  const row = Math.min(rows - 1, Math.max(0, Math.floor((1 - y / height) * rows)));
  return { start: start + (row * column) / rows, end: start + ((row + 1) * column) / rows };
}

/** The column at a point: when zoomed to minutes, a second. */
export function columnAt({ column }: Level, view: Range, x: number, width: number): Range {
  const start = Math.floor((view.start + (x / width) * (view.end - view.start)) / column) * column;
  return { start, end: start + column };
}

/** A range as boxes on the heatmap: part of its first column, whole columns, part of its last. */
export function boxesOf({ column }: Level, range: Range, view: Range, width: number, height: number): Box[] {
  const each = (column / (view.end - view.start)) * width;
  const x = (place: number) => ((place * column - view.start) / column) * each;
  const first = Math.floor(range.start / column);
  const last = Math.ceil(range.end / column) - 1;
  const from = range.start / column - first;
  const to = range.end / column - last;
  if (first === last) return [[x(first), height * (1 - to), each, height * (to - from)]];
  const found: Box[] = [];
  const wholeFirst = from > 0 ? first + 1 : first;
  const wholeLast = to < 1 ? last - 1 : last;
  if (from > 0) found.push([x(first), 0, each, height * (1 - from)]);
  if (wholeLast >= wholeFirst) found.push([x(wholeFirst), 0, each * (wholeLast - wholeFirst + 1), height]);
  if (to < 1) found.push([x(last), height * (1 - to), each, height * to]);
  return found;
}

/** How full a cell is on average, and in its fullest part. */
export function inCell(grid: Grid, range: Range, cell: number): { mean: number; peak: number } {
  const first = range.start / cell;
  const count = (range.end - range.start) / cell;
  return { mean: mean(grid, first, first + count), peak: heat(grid, first, count) };
}
