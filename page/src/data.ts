// The bundle of a source: what src/zombiescope/web/payload.py packs.
import { unpacked } from "./columns";
import type { Numbers, Unpacked } from "./columns";

export interface Evidence {
  what: string;
  subject: string;
  value: number | null;
  at: number;
  source: string;
  text: string;
}
export interface Finding {
  sign: string;
  subject: string;
  says: string;
  span: { start: number; end: number };
  evidence: Evidence[];
  harm?: { says: string };
  rivals?: { finding: number; grounds: string[] }[]; // other causes that could explain it
  unchecked?: string[]; // signs of causes that could not be checked
}
export interface Ground {
  kind: string;
  says: string;
  evidence: Evidence[];
}
export interface Link {
  law: string;
  cause: number;
  effect: number;
  grounds: Ground[];
}
export interface Verdict {
  sign: string;
  state: string;
  says: string;
}
export interface Remedy {
  name: string;
  cures: string;
  subject: string;
  risk: string; // safe, disruptive or advice
  steps: { says: string; argv: string[]; risk: string }[];
}
export interface Case {
  node: string;
  kernel: string;
  state: string;
  says: string;
  roots: number[];
  tellings: { chain: number[]; again: number[][] }[];
  noted: number[]; // found, and harms nobody
  past: number[]; // ended before the recording
  findings: Finding[];
  links: Link[];
  verdicts: Verdict[];
  remedies: Remedy[]; // in the order in which every report offers them
  unexplained: { finding: number; candidates: { law: string; why_not: string }[] }[];
}

/** Something that happened; times are seconds since the axis begins. */
export interface Happening {
  lane: "log" | "fix" | "finding";
  name: string;
  text: string;
  start: number;
  end: number;
  finding?: number;
}

interface Header {
  zombiescope: string;
  label: string;
  clock: "unix" | "machine" | "none";
  unit: "samples" | "nanoseconds";
  hz: number;
  origin: string;
  length: number;
  tick: number;
  cell: number;
  samples: number;
  cpus: number[]; // -1 is unknown
  notes: string[];
  events: Happening[];
  case: Case | null;
  series: { name: string; unit: string; of: string; cell: number }[];
  cores: { cell: number; cells: number; cpus: number[]; modes: string[]; nodes: number[] } | null;
  columns: Record<string, [string, number, number]>;
}

/** One row a sample, sorted by time. `cpu` is one more than the core's number; 0 is unknown. */
export interface Rows {
  at: Uint32Array;
  cpu: Numbers;
  who: Numbers;
  leaf: Numbers;
  weight: Numbers;
  long: Numbers;
}

/** Nodes in the order a flame graph is drawn; all below node i stands from i + 1 to after[i]. */
export interface Tree {
  names: string[];
  kinds: Uint8Array;
  modules: string[];
  label: Numbers;
  parent: Numbers;
  depth: Numbers;
  after: Numbers;
  deepest: number;
}
export interface Who {
  pid: number;
  comm: string;
  cgroup: string;
}

/** Shares of each cell by mode, 250 for all of it and 255 where there is no data: [core][cell][mode]. */
export interface Modes {
  cell: number;
  cells: number;
  cpus: number[];
  shares: Uint8Array;
  nodes: number[]; // of each core its NUMA node; empty if unknown
  sampled: boolean;
}
export const FULL = 250;
export const UNSEEN = 255;
export const MODES = 5; // user, system, interrupts, softirq, steal

export interface Bundle {
  header: Header;
  rows: Rows;
  tree: Tree;
  whos: Who[];
  cpus: number[];
  spent: Numbers; // weight of each who
  modes: Modes | null;
  series: Float32Array[];
  heat: Numbers | null;
}

export const ROOT = 0;
export const PROCESS = 1;
export const USER = 2;
export const KERNEL = 3; // kinds of names
const MAGIC = "zsview01";

export function decode(buffer: ArrayBuffer): Bundle {
  const { header, numbers, words } = unpacked<Header>(buffer, MAGIC);
  const pids = numbers("pids");
  const comms = words("comms");
  const cgroups = words("cgroups");
  const whos = Array.from(pids, (pid, i) => ({ pid: pid - 1, comm: comms[i], cgroup: cgroups[i] }));
  const rows: Rows = {
    at: summed(numbers("at")),
    cpu: numbers("cpu"),
    who: numbers("who"),
    leaf: numbers("leaf"),
    weight: numbers("weight"),
    long: numbers("long"),
  };
  return {
    header,
    rows,
    whos,
    tree: treeOf({ numbers, words }),
    cpus: header.cpus,
    spent: numbers("spent"),
    modes: header.cores && {
      cell: header.cores.cell,
      cells: header.cores.cells,
      cpus: header.cores.cpus,
      shares: numbers("modes") as Uint8Array,
      nodes: header.cores.nodes ?? [],
      sampled: false,
    },
    series: header.series.map((_, i) => numbers(`series${i}`) as Float32Array),
    heat: header.columns.heat ? numbers("heat") : null,
  };
}

/** The stacks of a flame graph. */
export function treeOf({ numbers, words }: Pick<Unpacked<unknown>, "numbers" | "words">): Tree {
  const modules = words("modules");
  const depth = numbers("depth");
  let deepest = 0;
  for (let i = 0; i < depth.length; i++) if (depth[i] > deepest) deepest = depth[i];
  return {
    names: words("names"),
    kinds: numbers("kinds") as Uint8Array,
    modules: Array.from(numbers("module"), (it) => modules[it]),
    label: numbers("label"),
    parent: numbers("parent"),
    depth,
    after: numbers("after"),
    deepest,
  };
}

function summed(steps: Numbers): Uint32Array {
  const found = new Uint32Array(steps.length);
  for (let i = 0, sum = 0; i < steps.length; i++) found[i] = sum += steps[i];
  return found;
}
