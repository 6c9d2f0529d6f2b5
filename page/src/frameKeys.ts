// Which frame an arrow key leads to: up and down the stack, and to the frames beside.
import type { Drawing } from "./flame";

export function beside({ tree, flame, focus, upright }: Drawing, node: number, key: string): number {
  const seen = (it: number) => flame.total[it] > 0;
  const inwards = key === (upright ? "ArrowUp" : "ArrowDown");
  if (inwards) {
    let best = node;
    for (let child = node + 1; child < tree.after[node]; child = tree.after[child])
      if (seen(child) && (best === node || flame.total[child] > flame.total[best])) best = child;
    return best;
  }
  if (node <= focus) return key === "ArrowUp" || key === "ArrowDown" ? Number(tree.parent[node]) : node;
  const above = Number(tree.parent[node]);
  if (key === "ArrowUp" || key === "ArrowDown") return above;
  let before = node;
  for (let child = above + 1; child < tree.after[above]; child = tree.after[child]) {
    if (!seen(child)) continue;
    if (key === "ArrowRight" && child > node) return child;
    if (key === "ArrowLeft" && child < node) before = child;
  }
  return before;
}
