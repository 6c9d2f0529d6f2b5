// Queries on the samples: which are selected, and their sums in the tree and in cells of time.
// Times are nanoseconds since the axis begins. Weights are integers below 2^53, so every sum is exact.
import type { Numbers } from "./columns";
import type { Bundle, Tree } from "./data";

export interface Range {
  start: number;
  end: number;
}
export interface Filter {
  cpu: number | null;
  pid: number | null;
  comm: string | null;
  cgroup: string | null;
}
export const EVERYBODY: Filter = { cpu: null, pid: null, comm: null, cgroup: null };

/** For each who, whether it is selected; null if all are. */
export function meant(bundle: Bundle, filter: Filter): Uint8Array | null {
  const { pid, comm, cgroup } = filter;
  if (pid === null && comm === null && cgroup === null) return null;
  return Uint8Array.from(bundle.whos, (who) =>
    Number(
      (pid === null || who.pid === pid) &&
        (comm === null || who.comm === comm) &&
        (cgroup === null || who.cgroup === cgroup || who.cgroup.startsWith(`${cgroup}/`)),
    ),
  );
}

/** The first row at or after a time. */
export function firstRow(bundle: Bundle, time: number): number {
  const { at } = bundle.rows;
  const tick = Math.ceil(time / bundle.header.tick);
  let low = 0;
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at[middle] < tick) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** For each node of the tree, its self weight from the samples of a range. */
export function ownOf(bundle: Bundle, range: Range | null, filter: Filter): Float64Array {
  const { cpu, who, leaf, weight } = bundle.rows;
  const found = new Float64Array(bundle.tree.label.length);
  const whos = meant(bundle, filter);
  const core = filter.cpu === null ? -1 : filter.cpu + 1;
  const last = range ? firstRow(bundle, range.end) : leaf.length;
  for (let i = range ? firstRow(bundle, range.start) : 0; i < last; i++) {
    if ((whos === null || whos[who[i]]) && (core < 0 || cpu[i] === core)) found[leaf[i]] += weight[i];
  }
  return found;
}

/** A flame graph: self and total weight of each node; `running` is the sum of all self weights before a node. */
export interface Flame {
  own: Float64Array;
  running: Float64Array;
  total: Float64Array;
  all: number;
}

export function flameOf(tree: Tree, own: Float64Array): Flame {
  const count = own.length;
  const running = new Float64Array(count + 1);
  const total = new Float64Array(count);
  for (let i = 0; i < count; i++) running[i + 1] = running[i] + own[i];
  for (let i = 0; i < count; i++) total[i] = running[tree.after[i]] - running[i];
  return { own, running, total, all: total[0] ?? 0 };
}

/** For each node, whether its name, or that of one above it, is marked. */
export function below(tree: Tree, labels: Uint8Array): Uint8Array {
  const found = new Uint8Array(tree.label.length);
  for (let i = 1; i < found.length; i++) found[i] = labels[tree.label[i]] || found[tree.parent[i]];
  return found;
}

/** Busy time in cells of 20 ms, as running sums: the sum of any range is one subtraction. */
export interface Grid {
  sums: Float64Array;
  cells: number;
  most: number;
}

export function gridOf(bundle: Bundle, filter: Filter, marked: Uint8Array | null): Grid {
  const { header } = bundle;
  const cells = Math.ceil(header.length / header.cell);
  const everybody = Object.values(filter).every((it) => it === null) && !marked;
  const sums = new Float64Array(cells + 1);
  const found = sums.subarray(1); // filled cell by cell, then summed in place: it may be tens of megabytes
  if (bundle.heat && everybody) found.set(bundle.heat.subarray(0, cells) as Numbers);
  else if (header.clock !== "none") {
    // Rows that are merged over more than a cell fill all of it evenly.
    const wide = Math.max(1, Math.round(header.tick / header.cell));
    const filled = wide > 1 ? new Float64Array(Math.ceil(cells / wide)) : found;
    fill(filled, bundle, everybody ? null : chooser(bundle, filter, marked), header.cell * wide);
    if (wide > 1) for (let i = 0; i < cells; i++) found[i] = filled[Math.floor(i / wide)] / wide;
  }
  let most = 0;
  for (let i = 0; i < cells; i++) {
    if (found[i] > most) most = found[i];
    sums[i + 1] += sums[i];
  }
  return { sums, cells, most };
}

/** Whether a row is selected. */
function chooser(bundle: Bundle, filter: Filter, marked: Uint8Array | null): (row: number) => boolean {
  const { cpu, who, leaf } = bundle.rows;
  const whos = meant(bundle, filter);
  const core = filter.cpu === null ? -1 : filter.cpu + 1;
  return (row) =>
    (whos === null || whos[who[row]] === 1) &&
    (core < 0 || cpu[row] === core) &&
    (marked === null || marked[leaf[row]] === 1);
}

function fill(found: Float64Array, bundle: Bundle, wanted: ((row: number) => boolean) | null, cell: number): void {
  const { at, weight, long } = bundle.rows;
  const ticks = cell / bundle.header.tick; // a whole number, so that no time falls into the cell beside its own
  let next = 0;
  for (let i = 0; i < at.length; i++) {
    const isLong = next < long.length && long[next] === i;
    if (isLong) next++;
    if (wanted !== null && !wanted(i)) continue;
    if (isLong) spread(found, at[i] * bundle.header.tick, weight[i], cell);
    else found[Math.floor(at[i] / ticks)] += weight[i];
  }
}

/** A sample at the end of a period with interrupts off belongs to the cells of that period, which are before it. */
function spread(found: Float64Array, time: number, weight: number, cell: number): void {
  for (let back = 0; back * cell < weight; back++) {
    const place = Math.floor((time - back * cell - cell / 2) / cell);
    if (place >= 0 && place < found.length) found[place] += Math.min(cell, weight - back * cell);
  }
}

/** Seconds of CPU time for one unit of weight; 0 if unknown. */
export function secondsEach(bundle: Bundle): number {
  if (bundle.header.unit === "nanoseconds") return 1e-9;
  return bundle.header.hz ? 1 / bundle.header.hz : 0;
}
