// The layout of everything under the time axis, from top to bottom.
import { rowsHeight } from "./coreRows";
import type { CoreRow } from "./coreRows";
import type { Bundle, Happening, Modes } from "./data";
import { localOffset } from "./format";

export type Kind = "overview" | "axis" | "heatmap" | "cores" | "event" | "series";
export interface Lane {
  kind: Kind;
  top: number;
  height: number;
  title: string;
  more: string;
  index: number;
  events: Happening[];
}

const HEIGHTS = { overview: 28, axis: 20, local: 14, heatmap: 150, low: 100, event: 13, series: 32 };
const LOW = 850; // pixels of the window
const GAP = 12;
const CLOSE = 6;
const MOST_ROWS = 14; // of events: the rest share the last

export function lanesOf(bundle: Bundle, modes: Modes | null, cores: CoreRow[]): Lane[] {
  const found: Lane[] = [];
  let top = 0;
  const add = (
    kind: Kind,
    height: number,
    gap: number,
    title: string,
    more = "",
    index = 0,
    events: Happening[] = [],
  ) => {
    found.push({ kind, top, height, title, more, index, events });
    top += height + gap;
  };
  add("overview", HEIGHTS.overview, 2, "overview");
  // Where the local time is another one it stands below UTC.
  const local = localOffset(bundle, 0);
  const tall = HEIGHTS.axis + (local ? HEIGHTS.local : 0);
  add("axis", tall, 0, bundle.header.clock === "unix" ? "UTC" : "machine clock, in seconds", local && `local (UTC${local})`);
  // On a low screen the lanes below it matter more.
  if (bundle.rows.at.length) add("heatmap", innerHeight < LOW ? HEIGHTS.low : HEIGHTS.heatmap, GAP, "busy time");
  if (modes) {
    add(
      "cores",
      rowsHeight(cores),
      GAP,
      "cores",
      modes.sampled ? "by samples" : "by mode",
    );
  }
  const rows = eventRows(bundle);
  rows.forEach(([name, events], i) =>
    add("event", HEIGHTS.event, i === rows.length - 1 ? GAP : 1, name, "", i, events),
  );
  bundle.header.series.forEach((it, i) => add("series", HEIGHTS.series, CLOSE, it.name, it.of, i));
  return found;
}

export function heightOf(lanes: Lane[]): number {
  const last = lanes[lanes.length - 1];
  return last.top + last.height;
}

/** One row for each kind: log lines and fixes first, then signs in the order of the diagnosis. */
function eventRows({ header }: Bundle): [string, Happening[]][] {
  const order = header.case?.tellings.flatMap((it) => it.chain.map((place) => header.case!.findings[place].sign)) ?? [];
  const rank = (it: Happening) =>
    it.lane !== "finding" ? -1 : order.includes(it.name) ? order.indexOf(it.name) : order.length;
  const rows = new Map<string, Happening[]>();
  for (const it of [...header.events].sort((a, b) => rank(a) - rank(b))) {
    const key = it.lane === "finding" ? it.name : `log ${it.name}`;
    const row = rows.get(key);
    if (row) row.push(it);
    else rows.set(key, [it]);
  }
  const found: [string, Happening[]][] = [...rows].map(([key, events]) => [key.replace(/^log /, ""), events]);
  if (found.length <= MOST_ROWS) return found;
  return [...found.slice(0, MOST_ROWS - 1), ["others", found.slice(MOST_ROWS - 1).flatMap(([, events]) => events)]];
}

export function laneAt(lanes: Lane[], y: number): Lane | null {
  return lanes.find((it) => y >= it.top - 1 && y < it.top + it.height + 1) ?? null;
}
