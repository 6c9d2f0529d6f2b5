// The strip of cores: one row for each core, coloured by CPU mode. A pixel that covers many cells shows the worst of
// them, the one with most time in the kernel: an average would hide the second that did harm.
import type { CoreRow } from "./coreRows";
import type { Bundle, Modes } from "./data";
import { FULL, KERNEL, MODES, UNSEEN } from "./data";
import { SECOND } from "./format";
import type { Range } from "./samples";
import { secondsEach } from "./samples";
import { pixel } from "./theme";
import type { Palette } from "./theme";

const FEWER = 8; // cells of a level that make one of the next
const STACKED = 12; // pixels of a row: with less, the parts cannot be distinguished
const FEWEST = 400; // cells of the coarsest level: fewer than a screen is wide
const SAMPLED_CELL = 0.25 * SECOND;

/** Without readings of /proc/stat the samples show what cores did, by the kind of the innermost function. */
export function modesOf(bundle: Bundle): Modes | null {
  const { rows, tree, header } = bundle;
  const each = secondsEach(bundle);
  if (bundle.modes) return bundle.modes;
  const cpus = bundle.cpus.filter((it) => it >= 0);
  if (!cpus.length || header.clock === "none" || !each) return null;
  const cell = header.length <= 3600 * SECOND ? SAMPLED_CELL : SECOND;
  const cells = Math.ceil(header.length / cell);
  const place = new Int32Array(65_537).fill(-1);
  const spent = new Float32Array(cpus.length * cells * 2);
  cpus.forEach((cpu, i) => {
    place[cpu + 1] = i;
  });
  const kernel = Uint8Array.from(tree.label, (label) => Number(tree.kinds[label] === KERNEL));
  const { at, cpu, leaf, weight } = rows;
  const scale = header.tick / cell;
  const unit = each * SECOND;
  for (let i = 0; i < at.length; i++) {
    const core = place[cpu[i]];
    const length = weight[i] * unit;
    if (core < 0) continue;
    let to = Math.min(cells - 1, Math.floor(at[i] * scale));
    let left = length;
    // A sample that covers more than one cell fills the cells before it.
    for (; left > 0 && to >= 0; to--, left -= cell)
      spent[(core * cells + to) * 2 + kernel[leaf[i]]] += Math.min(cell, left);
  }
  const shares = new Uint8Array(cpus.length * cells * MODES);
  for (let i = 0; i < cpus.length * cells; i++) {
    for (let mode = 0; mode < 2; mode++) shares[i * MODES + mode] = Math.min(FULL, (spent[i * 2 + mode] / cell) * FULL);
  }
  return { cell, cells, cpus, shares, nodes: [], sampled: true };
}

/** For each block of cells the worst cell in it, in ever larger blocks. */
export interface Pyramid {
  modes: Modes;
  levels: Uint32Array[];
}

export function pyramidOf(modes: Modes): Pyramid {
  const { cells, cpus, shares } = modes;
  const levels: Uint32Array[] = [];
  let below: Uint32Array | null = null;
  let count = cells;
  while (count > FEWEST) {
    const next = Math.ceil(count / FEWER);
    const level = new Uint32Array(cpus.length * next);
    for (let core = 0; core < cpus.length; core++) {
      for (let block = 0; block < next; block++) {
        let worst = -1;
        let score = -1;
        for (let i = block * FEWER; i < Math.min((block + 1) * FEWER, count); i++) {
          const cell: number = below ? below[core * count + i] : i;
          const its = badness(shares, (core * cells + cell) * MODES);
          if (its > score) {
            score = its;
            worst = cell;
          }
        }
        level[core * next + block] = worst;
      }
    }
    levels.push(level);
    below = level;
    count = next;
  }
  return { modes, levels };
}

/** The kernel's time first, then the program's. */
function badness(shares: Uint8Array, at: number): number {
  if (shares[at] === UNSEEN) return 0;
  return 4 * (shares[at + 1] + shares[at + 2] + shares[at + 3] + shares[at + 4]) + shares[at] + 1;
}

function worstIn(pyramid: Pyramid, core: number, from: number, to: number): number {
  const { cells, shares } = pyramid.modes;
  let size = 1;
  let level = -1;
  while (level + 1 < pyramid.levels.length && size * FEWER * 2 <= to - from) {
    size *= FEWER;
    level++;
  }
  const blocks = Math.ceil(cells / size);
  const found = level < 0 ? null : pyramid.levels[level];
  let worst = from;
  let score = -1;
  for (let block = Math.floor(from / size); block * size < to && block < blocks; block++) {
    const cell = found ? found[core * blocks + block] : block;
    const its = badness(shares, (core * cells + cell) * MODES);
    if (its > score) {
      score = its;
      worst = cell;
    }
  }
  return worst;
}

let image: HTMLCanvasElement | null = null;

export function paintStrip(
  context: CanvasRenderingContext2D,
  pyramid: Pyramid,
  rows: CoreRow[],
  view: Range,
  palette: Palette,
  width: number,
): void {
  const { modes } = pyramid;
  const { cells, shares } = modes;
  const columns = Math.max(1, Math.round(width));
  const linesOf = (row: CoreRow) => (row.height >= STACKED ? row.height - 1 : 1);
  const pixels = new ImageData(
    columns,
    rows.reduce((sum, row) => sum + linesOf(row), 0),
  );
  const data = new Uint32Array(pixels.data.buffer);
  const each = (view.end - view.start) / columns / modes.cell;
  const begin = view.start / modes.cell;
  const unseen = pixel(rgb(palette.unseen));
  const empty = pixel(rgb(palette.raised));
  const paper = rgb(palette.raised);
  const colours = palette.modes.map(pixel);
  let first = 0;
  for (const row of rows) {
    const lines = linesOf(row);
    for (let x = 0; x < columns; x++) {
      const from = Math.floor(begin + x * each);
      const to = Math.max(from + 1, Math.ceil(begin + (x + 1) * each));
      if (from < 0 || from >= cells) continue;
      const at = (row.core * cells + worstIn(pyramid, row.core, from, Math.min(to, cells))) * MODES;
      const top = first * columns + x;
      if (shares[at] === UNSEEN) {
        for (let y = 0; y < lines; y++) data[top + y * columns] = unseen;
        continue;
      }
      if (lines === 1) {
        data[top] = blended(shares, at, palette, paper);
        continue;
      }
      // From below: the kernel's time, then the program's; what is left is idle. Small parts do not get a whole pixel.
      let y = lines - 1;
      let edge = 0;
      for (const mode of [3, 2, 1, 4, 0]) {
        edge += (shares[at + mode] / FULL) * lines;
        for (; y >= 0 && lines - y - 0.5 <= edge; y--) data[top + y * columns] = colours[mode];
      }
      for (; y >= 0; y--) data[top + y * columns] = empty;
    }
    first += lines;
  }
  image ??= document.createElement("canvas");
  image.width = columns;
  image.height = pixels.height;
  image.getContext("2d")!.putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  first = 0;
  for (let i = 0; i < rows.length;) {
    const { top, height } = rows[i];
    const lines = linesOf(rows[i]);
    let next = i + 1;
    // Thin rows that touch are drawn at once: there are hundreds.
    if (lines === 1) while (next < rows.length && rows[next].height === height && rows[next].top === rows[next - 1].top + height) next++;
    const count = next - i;
    context.drawImage(image, 0, first, columns, lines * count, 0, top, width, lines > 1 ? lines : height * count);
    first += lines * count;
    i = next;
  }
}

/** All modes of a cell as one colour. Called for every pixel, so it allocates nothing. */
function blended(shares: Uint8Array, at: number, palette: Palette, paper: readonly [number, number, number]): number {
  let red = 0;
  let green = 0;
  let blue = 0;
  let busy = 0;
  for (let mode = 0; mode < MODES; mode++) {
    const share = shares[at + mode];
    const colour = palette.modes[mode];
    if (!share) continue;
    busy += share;
    red += colour[0] * share;
    green += colour[1] * share;
    blue += colour[2] * share;
  }
  const rest = Math.max(0, FULL - busy);
  const all = busy + rest;
  red = (red + paper[0] * rest) / all;
  green = (green + paper[1] * rest) / all;
  blue = (blue + paper[2] * rest) / all;
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function rgb(hex: string): [number, number, number] {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
}
