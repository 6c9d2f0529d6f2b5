// The flame graph on a canvas: only frames at least half a pixel wide are drawn, however large the tree is.
import { KERNEL, PROCESS, ROOT } from "./data";
import type { Tree } from "./data";
import type { Flame } from "./samples";
import type { Palette } from "./theme";

export const ROW = 17; // pixels
const THIN = 0.5;
const NAMED = 26; // pixels: what is narrower is not drawn, or has no name
const LETTER = 6.05;
const FONT = '10.5px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const FULLY = 0.05; // of all: a change of share by this much gets the full colour

/** Two flame graphs of one tree; `scale` makes the baseline as large as what is compared with it. */
export interface Difference {
  now: Flame;
  then: Flame;
  scale: number;
}

export interface Drawing {
  tree: Tree;
  flame: Flame;
  difference: Difference | null;
  labels: Uint8Array | null;
  focus: number;
  upright: boolean;
  palette: Palette;
  width: number;
}

export function differenceOf(now: Flame, then: Flame): Difference {
  return { now, then, scale: then.all ? now.all / then.all : 0 };
}

/** By how much a node's share rose. Every node has one, also those that only one of the two has. */
export function rise({ now, then, scale }: Difference, node: number, what: "own" | "total"): number {
  const all = now.all || then.all || 1;
  return (now[what][node] - then[what][node] * (now.all ? scale : 1)) / all;
}

/** From the root down to a node. */
export function pathTo(tree: Tree, node: number): number[] {
  const found = [node];
  while (found[0] > 0) found.unshift(tree.parent[found[0]]);
  return found;
}

/** How many rows the visible part has. */
export function depthOf({ tree, flame, focus, width }: Drawing): number {
  const least = ((flame.total[focus] || 1) / width) * THIN;
  const end = tree.after[focus];
  let deepest = tree.depth[focus];
  for (let i = focus; i < end;) {
    if (flame.total[i] < least || flame.total[i] === 0) {
      i = tree.after[i];
      continue;
    }
    if (tree.depth[i] > deepest) deepest = tree.depth[i];
    i++;
  }
  return deepest + 1;
}

/** Draw it; returns how many frames were. */
export function paintFlame(context: CanvasRenderingContext2D, drawing: Drawing, height: number): number {
  const { tree, flame, focus, width } = drawing;
  const whole = flame.total[focus];
  const scale = whole ? width / whole : 0;
  const top = (depth: number) => (drawing.upright ? height - (depth + 1) * ROW : depth * ROW);
  context.font = FONT;
  context.textBaseline = "middle";
  const path = pathTo(tree, focus);
  for (const node of path.slice(0, -1)) box(context, drawing, node, 0, top(tree.depth[node]), width, 0.6);
  // Self time of the frames above is drawn right of all they called: subtract it from the running sum.
  const above = new Float64Array(tree.deepest + 2);
  for (const node of path) above[tree.depth[node] + 1] = above[tree.depth[node]] + flame.own[node];
  const left = flame.running[focus] - above[tree.depth[focus]];
  let drawn = 0;
  for (let i = focus, end = tree.after[focus]; i < end;) {
    const wide = flame.total[i] * scale;
    if (wide < THIN) {
      i = tree.after[i];
      continue;
    }
    const depth = tree.depth[i];
    above[depth + 1] = above[depth] + flame.own[i];
    box(context, drawing, i, (flame.running[i] - above[depth] - left) * scale, top(depth), wide, 1);
    drawn++;
    i++;
  }
  return drawn;
}

function box(
  context: CanvasRenderingContext2D,
  drawing: Drawing,
  node: number,
  x: number,
  y: number,
  wide: number,
  strength: number,
): void {
  context.globalAlpha = strength;
  context.fillStyle = colour(drawing, node);
  context.fillRect(x, y, wide > 2 ? wide - 0.6 : wide, ROW - 1);
  if (wide >= NAMED) {
    const letters = Math.floor((wide - 8) / LETTER);
    const name = drawing.tree.names[drawing.tree.label[node]];
    context.globalAlpha = 1;
    context.fillStyle = drawing.palette.text;
    context.fillText(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, x + 4, y + ROW / 2);
  }
  context.globalAlpha = 1;
}

function colour({ tree, difference, labels, palette }: Drawing, node: number): string {
  const label = tree.label[node];
  if (labels?.[label]) return palette.match;
  if (difference) {
    const risen = rise(difference, node, "total");
    const shade = Math.min(8, Math.round(Math.sqrt(Math.min(1, Math.abs(risen) / FULLY)) * 8));
    return shade === 0 ? palette.same : (risen > 0 ? palette.rose : palette.fell)[shade];
  }
  const kind = tree.kinds[label];
  if (kind === ROOT) return palette.root;
  const shades = kind === PROCESS ? palette.process : kind === KERNEL ? palette.kernel : palette.user;
  return shades[label & 3];
}

/** The frame at a point, or -1. */
export function frameAt(drawing: Drawing, height: number, x: number, y: number): number {
  const { tree, flame, focus, width } = drawing;
  const row = Math.floor((drawing.upright ? height - y : y) / ROW);
  const path = pathTo(tree, focus);
  if (row < path.length) return path[row] ?? -1;
  let node = focus;
  let begin = 0;
  const at = (x / width) * flame.total[focus];
  for (let depth = path.length; depth <= row; depth++) {
    let child = node + 1;
    let found = -1;
    for (; child < tree.after[node]; child = tree.after[child]) {
      if (at < begin + flame.total[child]) {
        found = child;
        break;
      }
      begin += flame.total[child];
    }
    if (found < 0) return -1;
    node = found;
  }
  return node;
}

export interface Line {
  label: number;
  now: number;
  then: number;
}

/** Self time of each function as a share of all: largest change first, or largest share first. */
export function ranked(tree: Tree, now: Flame, then: Flame | null, most: number, kind?: number): Line[] {
  const sums = [now, then].map((flame) => {
    const found = new Float64Array(tree.names.length);
    if (!flame?.all) return found;
    for (let i = 1; i < flame.own.length; i++) {
      if (kind === undefined) found[tree.label[i]] += flame.own[i] / flame.all;
      else if (tree.kinds[tree.label[i]] === kind) found[tree.label[i]] += flame.total[i] / flame.all;
    }
    return found;
  });
  const size = (label: number) => (then ? Math.abs(sums[0][label] - sums[1][label]) : sums[0][label]);
  return Array.from(tree.names.keys())
    .filter((label) => size(label) > 5e-4)
    .sort((a, b) => size(b) - size(a))
    .slice(0, most)
    .map((label) => ({ label, now: sums[0][label], then: sums[1][label] }));
}
