// All nodes of a fleet: what src/zombiescope/web/fleet_overview.py packs.
import { unpacked } from "./columns";
import type { Numbers } from "./columns";

export const CLEAR = 0;
export const UNCHECKED = 1;
export const SICK = 2;
const DEAREST = 0.98; // of the sick: one node that claims to cost a million cores does not make all others look cheap
export const STATES = ["clear", "not all could be checked", "sick"];

export interface RootCause {
  sign: string;
  subject: string;
  nodes: number;
}
export interface Status {
  nodes: number;
  sick: number;
  blind: number;
  silent: number;
  core_hours_a_day: number | null;
  money_a_day: number | null;
  span: { start: number; end: number };
  root_causes: {
    sign: string;
    subject: string;
    nodes: number;
    core_hours_a_day: number | null;
    money_a_day: number | null;
    trend: string;
  }[];
  more_root_causes: number; // that cost less than these
  blind_signs: { sign: string; nodes: number }[];
  refused_nodes: number;
  clocks_ahead: number;
}
export interface Hours {
  at: number[]; // unix seconds
  seen: (number | null)[];
  sick: (number | null)[];
  cores: (number | null)[];
  roots: { sign: string; subject: string; nodes: (number | null)[] }[];
}
interface Header {
  label: string;
  status: Status;
  left_out: number;
  traits: { name: string; values: string[]; groups: boolean }[];
  roots: RootCause[];
  units: string[];
  signs: { sign: string; nodes: number }[];
  hours: Hours;
}

/** A value for each node, as a place in `values`; the first is unknown. */
export interface Trait {
  name: string;
  values: string[];
  groups: boolean;
  of: Numbers;
}
export interface Fleet {
  header: Header;
  count: number;
  id: string[];
  name: string[];
  plain: string[]; // names in small letters
  traits: Trait[];
  state: Numbers;
  silent: Numbers;
  cores: Numbers;
  cost: Float32Array; // core-hours a day; NaN is unknown
  dear: number; // what nearly all sick nodes stay below: the end of the scale
  broken: Numbers;
  soon: Float32Array;
  worst: Numbers; // one more than the place of its root cause; 0 is none
  roots: (RootCause & { at: Numbers })[];
  units: { name: string; at: Numbers }[];
}

export function fleetOf(buffer: ArrayBuffer): Fleet {
  const { header, numbers, words } = unpacked<Header>(buffer, "zsfleet1");
  const state = numbers("state");
  const name = words("name");
  const cost = numbers("cost") as Float32Array;
  const costs = cost.filter((it, i) => state[i] === SICK && it >= 0).sort();
  return {
    header,
    count: state.length,
    id: words("id"),
    name,
    plain: name.map((it) => it.toLowerCase()),
    traits: header.traits.map((it) => ({ ...it, of: numbers(`trait:${it.name}`) })),
    state,
    silent: numbers("silent"),
    cores: numbers("cores"),
    cost,
    dear: costs[Math.floor((costs.length - 1) * DEAREST)] ?? 0,
    broken: numbers("broken"),
    soon: numbers("soon") as Float32Array,
    worst: numbers("worst"),
    roots: header.roots.map((it, i) => ({ ...it, at: numbers(`root:${i}`) })),
    units: header.units.map((name, i) => ({ name, at: numbers(`unit:${i}`) })),
  };
}

export function rootName({ sign, subject }: { sign: string; subject: string }): string {
  return subject ? `${sign} of ${subject}` : sign;
}
