// Who calls a function, and what it calls: all stacks with it, joined at its outermost call.
import type { Tree } from "./data";
import { flameOf } from "./samples";
import type { Flame } from "./samples";

export interface Side {
  tree: Tree;
  flame: Flame;
}

/** Stacks joined label by label. */
class Joined {
  readonly label: number[];
  readonly own = [0];
  private readonly inside: Map<number, number>[] = [new Map()];

  constructor(first: number) {
    this.label = [first];
  }

  /** The node below `node` with this label. */
  under(node: number, label: number): number {
    let found = this.inside[node].get(label);
    if (found === undefined) {
      this.inside[node].set(label, (found = this.label.length));
      this.label.push(label);
      this.own.push(0);
      this.inside.push(new Map());
    }
    return found;
  }

  /** In the order a flame graph is drawn, the heaviest first. */
  planted(names: Tree): Side {
    const total = [...this.own];
    const parents = new Int32Array(this.label.length);
    this.inside.forEach((children, node) => children.forEach((child) => (parents[child] = node)));
    for (let i = total.length - 1; i > 0; i--) total[parents[i]] += total[i]; // children come after their parents
    const label: number[] = [];
    const parent: number[] = [];
    const depth: number[] = [];
    const after: number[] = [];
    const own: number[] = [];
    let deepest = 0;
    const open: { node: number; place: number; rest: number[] }[] = [];
    const enter = (node: number) => {
      const place = label.push(this.label[node]) - 1;
      parent.push(open.length ? open[open.length - 1].place : 0);
      depth.push(open.length);
      deepest = Math.max(deepest, open.length);
      after.push(0);
      own.push(this.own[node]);
      open.push({ node, place, rest: [...this.inside[node].values()].sort((a, b) => total[a] - total[b]) });
    };
    enter(0);
    while (open.length) {
      const last = open[open.length - 1];
      const next = last.rest.pop();
      if (next !== undefined) enter(next);
      else {
        after[last.place] = label.length;
        open.pop();
      }
    }
    const tree: Tree = {
      ...names,
      label: Uint32Array.from(label),
      parent: Uint32Array.from(parent),
      depth: Uint32Array.from(depth),
      after: Uint32Array.from(after),
      deepest,
    };
    return { tree, flame: flameOf(tree, Float64Array.from(own)) };
  }
}

/** In both trees the function itself is the root. */
export function sandwichOf(tree: Tree, flame: Flame, label: number): { callers: Side; callees: Side } {
  const callers = new Joined(label);
  const callees = new Joined(label);
  const place = new Uint32Array(tree.deepest + 2); // of each depth, where we are among the callees
  for (let i = 0; i < tree.label.length;) {
    if (tree.label[i] !== label || !flame.total[i]) {
      i++;
      continue;
    }
    let node = 0;
    // Up to the process; the root of all stands for nobody.
    for (let up = Number(tree.parent[i]); up > 0; up = Number(tree.parent[up])) node = callers.under(node, tree.label[up]);
    callers.own[node] += flame.total[i];
    callees.own[0] += flame.own[i];
    place[tree.depth[i]] = 0;
    for (let below = i + 1; below < tree.after[i]; below++) {
      if (!flame.total[below]) continue;
      const at = callees.under(place[tree.depth[below] - 1], tree.label[below]);
      place[tree.depth[below]] = at;
      callees.own[at] += flame.own[below];
    }
    i = tree.after[i]; // calls of itself inside are counted once
  }
  return { callers: callers.planted(tree), callees: callees.planted(tree) };
}
