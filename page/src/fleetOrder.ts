// Which nodes are shown, in which order, in which groups.
import { CLEAR, SICK, STATES, UNCHECKED, rootName } from "./fleetData";
import type { Fleet } from "./fleetData";

/** "all", or one of these. */
export const KINDS: [string, string][] = [
  ["all", "all nodes"],
  ["sick", "sick"],
  ["unchecked", "not all checked"],
  ["clear", "clear"],
  ["silent", "silent: sent nothing of late"],
];

export interface Group {
  title: string;
  from: number; // places in the order
  to: number;
  sick: number;
}
export interface Ordered {
  order: Uint32Array; // nodes
  groups: Group[];
}

/** For each node whether it fits: `root` is the place of a root cause, -1 for any, -2 for sick nodes without one. */
export function chosen(fleet: Fleet, text: string, root: number, kind: string): Uint8Array {
  const words = text.trim().toLowerCase();
  const kept = new Uint8Array(fleet.count);
  if (root >= 0) for (const node of fleet.roots[root]?.at ?? []) kept[node] = 1;
  else for (let i = 0; i < fleet.count; i++) kept[i] = Number(root === -1 || (fleet.state[i] === SICK && !fleet.worst[i]));
  // Values of traits are few: each is looked at once.
  const named = words ? fleet.traits.map((it) => it.values.map((value) => value.toLowerCase().includes(words))) : [];
  for (let i = 0; i < fleet.count; i++) {
    if (!kept[i]) continue;
    const found = !words || fleet.plain[i].includes(words) || named.some((it, trait) => it[fleet.traits[trait].of[i]]);
    if (!found || !isKind(fleet, i, kind)) kept[i] = 0;
  }
  return kept;
}

function isKind(fleet: Fleet, node: number, kind: string): boolean {
  if (kind === "silent") return fleet.silent[node] === 1;
  return kind === "all" || fleet.state[node] === (kind === "sick" ? SICK : kind === "clear" ? CLEAR : UNCHECKED);
}

/** How nodes may be sorted: by a name, and how a person reads it. */
export function sorts(fleet: Fleet): [string, string][] {
  const traits = fleet.traits.map((it): [string, string] => [`trait:${it.name}`, it.name]);
  return [["harm", "harm"], ["name", "name"], ["broken", "what broke"], ["cores", "cores"], ...traits];
}

export function groupings(fleet: Fleet): [string, string][] {
  const traits = fleet.traits.filter((it) => it.groups).map((it): [string, string] => [`trait:${it.name}`, it.name]);
  const units = fleet.units.map((it): [string, string] => [`unit:${it.name}`, `unit ${it.name}`]);
  return [["", "nothing"], ["state", "state"], ["root", "root cause"], ...traits, ...units];
}

/** For each node its place among all names. */
export function ranked(names: string[]): Uint32Array {
  const order = Uint32Array.from(names, (_, i) => i).sort((a, b) => (names[a] < names[b] ? -1 : names[a] > names[b] ? 1 : a - b));
  const found = new Uint32Array(names.length);
  order.forEach((node, place) => {
    found[node] = place;
  });
  return found;
}

const DEAR = 1e13; // above any cost

function keys(fleet: Fleet, sort: string, names: Uint32Array): (node: number) => number {
  if (sort === "name") return (node) => names[node];
  if (sort === "broken") return (node) => -fleet.broken[node];
  if (sort === "cores") return (node) => -fleet.cores[node];
  const trait = fleet.traits.find((it) => `trait:${it.name}` === sort);
  if (trait) return (node) => trait.of[node];
  return (node) => (SICK - fleet.state[node]) * DEAR - (fleet.cost[node] || 0);
}

/** For each node the number of its group, and their titles. */
function labels(fleet: Fleet, group: string): { of: (node: number) => number; titles: string[] } {
  const trait = fleet.traits.find((it) => `trait:${it.name}` === group);
  if (trait) return { of: (node) => trait.of[node], titles: trait.values.map((it) => it || `${trait.name} unknown`) };
  const unit = fleet.units.find((it) => `unit:${it.name}` === group);
  if (unit) {
    const active = new Uint8Array(fleet.count);
    for (const node of unit.at) active[node] = 1;
    return { of: (node) => active[node], titles: [`${unit.name} not active`, `${unit.name} active`] };
  }
  if (group === "state") return { of: (node) => fleet.state[node], titles: STATES };
  if (group === "root") return { of: (node) => fleet.worst[node], titles: ["no root cause", ...fleet.roots.map(rootName)] };
  return { of: () => 0, titles: [""] };
}

/** All nodes as sorted, equal ones by name. */
export function sorted(fleet: Fleet, sort: string, names: Uint32Array): Uint32Array {
  const key = keys(fleet, sort, names);
  const first = Float64Array.from(names, (_, node) => key(node));
  return Uint32Array.from(names, (_, node) => node).sort((a, b) => first[a] - first[b] || names[a] - names[b]);
}

/** Those that fit, in groups, the sickest first; within a group as they were sorted. No sorting: two passes. */
export function ordered(fleet: Fleet, all: Uint32Array, kept: Uint8Array, group: string): Ordered {
  const { of, titles } = labels(fleet, group);
  const count = new Uint32Array(titles.length);
  const sick = new Uint32Array(titles.length);
  for (let node = 0; node < fleet.count; node++) {
    if (!kept[node]) continue;
    count[of(node)]++;
    if (fleet.state[node] === SICK) sick[of(node)]++;
  }
  const share = (label: number) => sick[label] / (count[label] || 1);
  const byShare = titles.map((_, i) => i).sort((a, b) => share(b) - share(a) || count[b] - count[a] || a - b);
  const groups: Group[] = [];
  const next = new Uint32Array(titles.length);
  let from = 0;
  for (const label of byShare) {
    if (!count[label]) continue;
    groups.push({ title: titles[label], from, to: from + count[label], sick: sick[label] });
    next[label] = from;
    from += count[label];
  }
  const order = new Uint32Array(from);
  for (const node of all) if (kept[node]) order[next[of(node)]++] = node;
  return { order, groups };
}
