// Nodes, figures and times of a fleet, in words.
import { SICK, STATES, rootName } from "./fleetData";
import type { Fleet } from "./fleetData";
import { short } from "./format";
import type { Told } from "./hover";

export function costOf(fleet: Fleet, node: number): string {
  if (fleet.state[node] !== SICK) return "–";
  return Number.isNaN(fleet.cost[node]) ? "unknown" : short(fleet.cost[node]);
}

export function rootOf(fleet: Fleet, node: number): string {
  const worst = fleet.worst[node];
  return worst ? rootName(fleet.roots[worst - 1]) : fleet.state[node] === SICK ? "no root cause found" : "";
}

export function nodeTold(fleet: Fleet, node: number): Told {
  const sick = fleet.state[node] === SICK;
  const cost = Number.isNaN(fleet.cost[node]) ? "cost unknown" : `${short(fleet.cost[node])} core-hours a day`;
  const lines = [
    `${STATES[fleet.state[node]]}${sick ? `, ${cost}` : ""}${fleet.silent[node] ? ", silent" : ""}`,
    ...(rootOf(fleet, node) ? [rootOf(fleet, node)] : []),
    ...(fleet.broken[node] ? [`${fleet.broken[node]} times something broke`] : []),
    fleet.traits
      .slice(0, 4)
      .map((it) => it.values[it.of[node]])
      .filter(Boolean)
      .join(" · "),
  ];
  return { title: fleet.name[node], lines };
}

/** A time of day, with its date if the range has more than one. */
export function hourOf(seconds: number, withDay = true): string {
  const text = new Date(seconds * 1000).toISOString();
  return `${withDay ? `${text.slice(0, 10)} ` : ""}${text.slice(11, 16)}`;
}

export function many(count: number, word: string): string {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

export function soonOf(seconds: number | null): string {
  if (seconds === null || Number.isNaN(seconds)) return "–";
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} days`;
}

export function bytesOf(size: number): string {
  const step = size > 0 ? Math.min(5, Math.floor(Math.log10(Math.max(size, 1)) / 3)) : 0;
  return `${(size / 1000 ** step).toFixed(step ? 1 : 0)} ${["B", "KB", "MB", "GB", "TB", "PB"][step]}`;
}
