// The text for the point under the pointer.
import { rowAt } from "./coreRows";
import type { CoreRow } from "./coreRows";
import { FULL, MODES, UNSEEN } from "./data";
import type { Modes } from "./data";
import { eventAt } from "./events";
import { SECOND, alsoLocal, amount, clock, lasting, measured, percent, short, stretch } from "./format";
import { cellAt, inCell, levelOf } from "./heatmap";
import type { Lane } from "./lanes";
import { secondsEach } from "./samples";
import type { Range } from "./samples";
import { valueAt } from "./SeriesView";
import type { State } from "./state";

export interface Told {
  title: string;
  lines: string[];
}

export function toldOf(
  state: State,
  modes: Modes | null,
  cores: CoreRow[],
  lane: Lane,
  x: number,
  y: number,
  width: number,
): Told | null {
  const view = state.view.value;
  const time = view.start + (x / width) * (view.end - view.start);
  const { bundle } = state;
  if (lane.kind === "heatmap") {
    const range = cellAt(levelOf(view, width, bundle.header.cell), view, x, y - lane.top, width, lane.height);
    const each = (secondsEach(bundle) * SECOND) / bundle.header.cell;
    const busy = (weight: number) => (each ? `${short(weight * each)} cores` : `${short(weight)} samples in 20 ms`);
    const { mean, peak } = inCell(state.grid.value, range, bundle.header.cell);
    const found = state.foundGrid.value && inCell(state.foundGrid.value, range, bundle.header.cell);
    return {
      title: `${stretch(bundle, range)}${alsoLocal(bundle, range.start)}`,
      lines: [
        `busy: ${busy(mean)}${peak > mean * 1.05 ? `, peak ${busy(peak)}` : ""}`,
        ...(found ? [`matched: ${busy(found.mean)} (${percent(mean ? found.mean / mean : 0)})`] : []),
      ],
    };
  }
  if (lane.kind === "cores" && modes) {
    const row = rowAt(cores, y - lane.top);
    if (!row) return null;
    const { core } = row;
    const node = modes.nodes.length ? `, NUMA node ${modes.nodes[core]}` : "";
    const cell = Math.floor(time / modes.cell);
    const at = (core * modes.cells + cell) * MODES;
    const names = ["user", "system", "interrupts", "softirq", "steal"];
    const shares = modes.shares.subarray(at, at + MODES);
    const seen = shares.length && shares[0] !== UNSEEN;
    return {
      title: `core ${modes.cpus[core]}${node} at ${clock(bundle, cell * modes.cell, modes.cell < SECOND ? 2 : 0)}${alsoLocal(bundle, cell * modes.cell)}`,
      lines: seen
        ? [
            Array.from(shares, (it, i) => (it ? `${names[i]} ${percent(it / FULL)}` : ""))
              .filter(Boolean)
              .join(", ") || "idle",
            `in ${lasting(modes.cell)}`,
          ]
        : ["no data"],
    };
  }
  if (lane.kind === "event") {
    const it = eventAt(lane, view, width, x);
    if (!it) return null;
    const when =
      it.end > it.start
        ? stretch(bundle, { start: it.start * SECOND, end: it.end * SECOND })
        : clock(bundle, it.start * SECOND, 3);
    return {
      title: `${it.name} · ${when}${alsoLocal(bundle, it.start * SECOND)}`,
      lines: [
        it.text,
        it.finding === undefined
          ? `click: compare the ${state.before.value} s before it with quiet time`
          : "click: show its time, and what is known of it",
      ],
    };
  }
  if (lane.kind === "series") {
    const { name, unit, of, cell } = bundle.header.series[lane.index];
    const value = valueAt(bundle.series[lane.index], cell, time);
    return { title: `${name}: ${measured(value, unit)}`, lines: [`${clock(bundle, time)}${alsoLocal(bundle, time)} · ${of}`] };
  }
  return null;
}

/** The text for a frame. */
export function frameTold(state: State, node: number): Told {
  const { tree } = state.bundle;
  const label = tree.label[node];
  const now = state.now.value;
  const then = state.then.value;
  const kind = ["everything", "process", "user code", "kernel"][tree.kinds[label]];
  const module = tree.modules[label];
  const share = (weight: number, all: number) => `${amount(state.bundle, weight)} (${percent(all ? weight / all : 0)})`;
  const cores = (weight: number, range: Range | null) => {
    const length = range ? range.end - range.start : state.bundle.header.length;
    return secondsEach(state.bundle) && length
      ? `, ${short((weight * secondsEach(state.bundle) * SECOND) / length)} cores`
      : "";
  };
  const lines = [
    `${kind}${module ? ` · ${module}` : ""}`,
    `total ${share(now.total[node], now.all)}${cores(now.total[node], state.chosen.value)}`,
    `self ${share(now.own[node], now.all)}`,
  ];
  if (then) {
    lines.push(
      `baseline: total ${share(then.total[node], then.all)}${cores(then.total[node], state.baseline.value)}`,
      `baseline: self ${share(then.own[node], then.all)}`,
    );
  }
  return { title: tree.names[label], lines };
}
