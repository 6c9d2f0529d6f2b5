// The grid of nodes: where each cell is, which one is under a point, and its picture.
import { SICK, UNCHECKED } from "./fleetData";
import type { Fleet } from "./fleetData";
import type { Group, Ordered } from "./fleetOrder";
import type { Palette } from "./theme";

const LARGEST = 26; // pixels of a cell
const SMALLEST = 4;
const FITS = 9; // if not all fits on the screen, cells are not smaller than this, and the grid scrolls
const MANY = 60_000; // nodes: then they are
export const HEAD = 24; // pixels above a group, for its title
const BELOW = 6;
const LEAST = 100; // of 255 shades: the least that a sick node is painted with

export interface Block extends Group {
  top: number;
  rows: number;
}
export interface Layout {
  cell: number;
  columns: number;
  blocks: Block[];
  height: number;
}

/** Cells as large as possible so that all of them fit. */
export function layoutOf({ groups, order }: Ordered, width: number, tall: number): Layout {
  const smallest = order.length > MANY ? SMALLEST : FITS;
  let found = withCells(groups, width, LARGEST);
  for (let cell = LARGEST - 1; cell >= smallest && found.height > tall; cell--) found = withCells(groups, width, cell);
  return found;
}

function withCells(groups: Group[], width: number, cell: number): Layout {
  const columns = Math.max(1, Math.floor(width / cell));
  const blocks: Block[] = [];
  let top = 0;
  for (const group of groups) {
    if (group.title) top += HEAD;
    const rows = Math.ceil((group.to - group.from) / columns);
    blocks.push({ ...group, top, rows });
    top += rows * cell + BELOW;
  }
  return { cell, columns, blocks, height: top };
}

/** The place in the order of the node at a point, or -1. */
export function placeAt({ blocks, cell, columns }: Layout, x: number, y: number): number {
  const column = Math.floor(x / cell);
  if (column < 0 || column >= columns) return -1;
  for (const block of blocks) {
    const row = Math.floor((y - block.top) / cell);
    if (row < 0 || row >= block.rows) continue;
    const place = block.from + row * columns + column;
    return place < block.to ? place : -1;
  }
  return -1;
}

export function boxOf({ blocks, cell, columns }: Layout, place: number): { left: number; top: number } {
  const block = blocks.find((it) => place < it.to)!;
  const inside = place - block.from;
  return { left: (inside % columns) * cell, top: block.top + Math.floor(inside / columns) * cell };
}

/** Where an arrow key leads; up and down go to the row above and below, also in the next group. */
export function beside(layout: Layout, place: number, key: string, last: number): number {
  const { columns, blocks } = layout;
  const clip = (it: number) => Math.min(Math.max(it, 0), last);
  if (key === "Home") return 0;
  if (key === "End") return last;
  if (key === "ArrowLeft") return clip(place - 1);
  if (key === "ArrowRight") return clip(place + 1);
  const at = blocks.findIndex((it) => place < it.to);
  const column = (place - blocks[at].from) % columns;
  const row = Math.floor((place - blocks[at].from) / columns) + (key === "ArrowDown" ? 1 : -1);
  const from = row < 0 ? at - 1 : row >= blocks[at].rows ? at + 1 : at;
  const block = blocks[from];
  if (!block) return place;
  const line = from === at ? row : from > at ? 0 : block.rows - 1;
  return Math.min(block.from + line * columns + column, block.to - 1);
}

/** The colour of each node, as a pixel. */
export function shadeOf(fleet: Fleet, palette: Palette, node: number): number {
  if (fleet.state[node] !== SICK) return palette.grey[fleet.state[node] === UNCHECKED ? 150 : 45];
  const cost = fleet.cost[node];
  return Number.isNaN(cost) ? palette.found[140] : palette.heat[stepOf(fleet, cost)];
}

/** By the root: what costs a tenth is still seen, and what costs half is told from what costs all. */
export function stepOf(fleet: Fleet, cost: number): number {
  const share = fleet.dear ? Math.sqrt(cost / fleet.dear) : 1;
  return Math.round(LEAST + (255 - LEAST) * Math.min(share, 1));
}

/** Paint what is visible: `from` is how far it is scrolled, sizes are in dots of the screen. */
export function paintGrid(
  pixels: Uint32Array,
  wide: number,
  tall: number,
  dots: number,
  from: number,
  { blocks, cell, columns }: Layout,
  { order }: Ordered,
  fleet: Fleet,
  palette: Palette,
): void {
  const gap = cell > 7 ? 1 : 0;
  const edge = (at: number) => Math.round(at * dots);
  for (const block of blocks) {
    for (let row = 0; row < block.rows; row++) {
      const y = block.top + row * cell - from;
      const top = Math.max(0, edge(y));
      const bottom = Math.min(tall, edge(y + cell - gap));
      if (bottom <= top) continue;
      const first = block.from + row * columns;
      const end = Math.min(first + columns, block.to);
      // One line of dots for the whole row, then the same line again.
      for (let i = first; i < end; i++)
        pixels.fill(shadeOf(fleet, palette, order[i]), top * wide + edge((i - first) * cell), top * wide + edge((i - first + 1) * cell - gap));
      for (let line = top + 1; line < bottom; line++) pixels.copyWithin(line * wide, top * wide, (top + 1) * wide);
      for (let i = first; i < end; i++) {
        const node = order[i];
        if (fleet.silent[node] || fleet.state[node] === UNCHECKED)
          mark(pixels, wide, edge((i - first) * cell), edge((i - first + 1) * cell - gap), top, bottom, fleet.silent[node] === 1);
      }
    }
  }
}

/** Not by colour alone: hollow is silent, striped is not all checked. Zero is no dot at all. */
function mark(pixels: Uint32Array, wide: number, left: number, right: number, top: number, bottom: number, hollow: boolean): void {
  const rim = Math.max(1, Math.round((right - left) / 8));
  for (let y = top; y < bottom; y++)
    for (let x = left; x < right; x++) {
      const inside = x >= left + rim && x < right - rim && y >= top + rim && y < bottom - rim;
      if (hollow ? inside : (x + y) % 4 < 2) pixels[y * wide + x] = 0;
    }
}
