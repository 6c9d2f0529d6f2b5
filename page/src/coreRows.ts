// Which core has which row of the strip. Few cores are tall rows by number; of many the worst are tall, the others thin.
import type { Modes } from "./data";
import { FULL, MODES, UNSEEN } from "./data";

export type Order = "worst" | "node" | "number";
export const ORDERS: Record<Order, string> = { worst: "worst first", node: "by NUMA node", number: "by number" };

export interface CoreRow {
  core: number; // its place in `modes.cpus`
  top: number;
  height: number;
  title: string; // beside it, if there is room
}

export const FEW = 16; // cores that all have a row in which the parts can be told apart
const TALL = 13; // pixels
const WORST = 8; // tall rows of all cores, shared by NUMA nodes if these are apart
const ROOM = 190; // pixels for the thin rows
const APART = 5; // pixels between nodes
const SPENT = 0.9 * FULL; // of a cell in the kernel: a core that has no time left for anything else

export function coreRows(modes: Modes, order: Order): CoreRow[] {
  const count = modes.cpus.length;
  const places = Array.from({ length: count }, (_, i) => i);
  const badness = order === "number" ? null : badnessOf(modes);
  const worse = (a: number, b: number) => (badness ? badness[b] - badness[a] : 0) || a - b;
  if (order === "node" && modes.nodes.length) {
    const nodes = [...new Set(modes.nodes)].sort((a, b) => a - b);
    const each = Math.max(1, Math.floor(WORST / nodes.length));
    return stacked(nodes.map((node) => places.filter((it) => modes.nodes[it] === node).sort(worse)), modes, each);
  }
  return stacked([order === "number" ? places : places.sort(worse)], modes, order === "number" ? 0 : WORST);
}

function stacked(groups: number[][], modes: Modes, worst: number): CoreRow[] {
  const count = modes.cpus.length;
  const few = count <= FEW;
  const thin = few ? Math.min(17, Math.max(TALL, Math.floor(ROOM / count))) : Math.max(1, Math.min(TALL, Math.floor(ROOM / count)));
  const found: CoreRow[] = [];
  let top = 0;
  for (const group of groups) {
    group.forEach((core, i) => {
      const height = few || i < worst ? Math.max(thin, few ? 0 : TALL) : thin;
      const node = groups.length > 1 ? `node ${modes.nodes[core]} · ` : "";
      found.push({ core, top, height, title: height >= TALL ? `${node}core ${modes.cpus[core]}` : "" });
      top += height;
    });
    top += APART;
  }
  return found;
}

export function rowsHeight(rows: CoreRow[]): number {
  const last = rows[rows.length - 1];
  return last ? last.top + last.height : 0;
}

export function rowAt(rows: CoreRow[], y: number): CoreRow | null {
  return rows.find((it) => y >= it.top && y < it.top + it.height) ?? null;
}

const known = new WeakMap<Modes, Float64Array>();

/** How many cells a core had no time left for programs; among equals, how much time it spent in the kernel. */
function badnessOf(modes: Modes): Float64Array {
  let found = known.get(modes);
  if (found) return found;
  const { cells, cpus, shares } = modes;
  known.set(modes, (found = new Float64Array(cpus.length)));
  for (let core = 0; core < cpus.length; core++) {
    let full = 0;
    let all = 0;
    for (let i = core * cells * MODES, end = i + cells * MODES; i < end; i += MODES) {
      if (shares[i] === UNSEEN) continue;
      const kernel = shares[i + 1] + shares[i + 2] + shares[i + 3] + shares[i + 4];
      all += kernel;
      if (kernel >= SPENT) full++;
    }
    found[core] = full + all / (FULL * cells + 1);
  }
  return found;
}
