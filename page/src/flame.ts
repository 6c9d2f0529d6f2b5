// The flame graph on a canvas: only frames at least a pixel wide are drawn, however large the tree is.
import { KERNEL, PROCESS, ROOT } from "./data";
import type { Tree } from "./data";
import type { Flame } from "./samples";
import type { Pen } from "./svgPen";
import type { Palette } from "./theme";

export const ROW = 17; // pixels
const THIN = 1; // pixel: what is narrower only blurs its neighbours
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
export function paintFlame(context: Pen, drawing: Drawing, height: number, about?: (node: number) => void): number {
  const { tree, flame, focus, width } = drawing;
  const whole = flame.total[focus];
  const scale = whole ? width / whole : 0;
  const top = (depth: number) => (drawing.upright ? height - (depth + 1) * ROW : depth * ROW);
  context.font = FONT;
  context.textBaseline = "middle";
  const path = pathTo(tree, focus);
  for (const node of path.slice(0, -1)) {
    about?.(node);
    box(context, drawing, node, 0, top(tree.depth[node]), width, 0.6);
  }
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
    about?.(i);
    box(context, drawing, i, (flame.running[i] - above[depth] - left) * scale, top(depth), wide, 1);
    drawn++;
    i++;
  }
  return drawn;
}

function box(
  context: Pen,
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

/** Where a visible frame is drawn. */
export function placeOf(drawing: Drawing, height: number, node: number): { left: number; top: number; width: number } {
  const { tree, flame, focus, width, upright } = drawing;
  const depth = Number(tree.depth[node]);
  const top = upright ? height - (depth + 1) * ROW : depth * ROW;
  if (node <= focus) return { left: 0, top, width };
  const scale = flame.total[focus] ? width / flame.total[focus] : 0;
  let left = 0;
  const path = pathTo(tree, node);
  for (const it of path.slice(path.indexOf(focus) + 1)) {
    for (let child = Number(tree.parent[it]) + 1; child < it; child = tree.after[child]) left += flame.total[child] * scale;
  }
  return { left, top, width: Math.max(flame.total[node] * scale, 2) };
}

/** How much of the visible part is in frames too narrow to be drawn, and how many they are. */
export function hiddenOf({ tree, flame, focus, width }: Drawing): number {
  const least = ((flame.total[focus] || 1) / width) * THIN;
  let hidden = 0;
  for (let i = focus; i < tree.after[focus]; i++) if (flame.total[i] > 0 && flame.total[i] < least) hidden++;
  return hidden;
}
