// Everything that is drawn, as tables: for a screen reader, for the keyboard, for copying.
import type { ComponentChildren } from "preact";
import { FULL, MODES, UNSEEN } from "./data";
import type { Modes } from "./data";
import { SECOND, alsoLocal, amount, clock, measured, percent, stretch } from "./format";
import type { State } from "./state";
import { modesOf } from "./strip";
import { outside, rangeOf, visit } from "./visit";

const MOST = 200; // rows of a table
const LEAST = 0.005; // of all: a smaller frame has no row

export function Tables({ state }: { state: State }) {
  return (
    <div class="tables" tabIndex={0} role="region" aria-label="tables">
      <Findings state={state} />
      <Events state={state} />
      <Cores state={state} modes={modesOf(state.bundle)} />
      <Curves state={state} />
      <Frames state={state} />
    </div>
  );
}

function Table({ title, heads, rows }: { title: string; heads: string[]; rows: ComponentChildren[][] }) {
  if (!rows.length) return null;
  return (
    <table>
      <caption>{title}</caption>
      <thead>
        <tr>
          {heads.map((it) => (
            <th key={it} scope="col">
              {it}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.slice(0, MOST).map((row, i) => (
          <tr key={i}>
            {row.map((cell, j) => (
              <td key={j}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Findings({ state }: { state: State }) {
  const found = state.bundle.header.case?.findings ?? [];
  const rows = found.map((it, place) => {
    const range = rangeOf(state, it.span);
    return [
      <button class="at" onClick={() => visit(state, place)}>
        {it.sign}
      </button>,
      it.subject,
      it.says,
      `${stretch(state.bundle, range)}${alsoLocal(state.bundle, range.start)}`,
      outside(state, range),
      it.harm?.says ?? "",
    ];
  });
  return <Table title="Findings" heads={["finding", "subject", "says", "when", "where in the recording", "cost"]} rows={rows} />;
}

function Events({ state }: { state: State }) {
  const { events } = state.bundle.header;
  const { start, end } = state.view.value;
  const rows = events
    .filter((it) => it.lane !== "finding" && it.end * SECOND >= start && it.start * SECOND <= end)
    .map((it) => [
      <button class="at" onClick={() => state.beforeEvent(it)}>
        {clock(state.bundle, it.start * SECOND, 3)}
        {alsoLocal(state.bundle, it.start * SECOND)}
      </button>,
      it.name,
      it.text,
    ]);
  return <Table title="Kernel log and remedies in view" heads={["when", "what", "text"]} rows={rows} />;
}

function Cores({ state, modes }: { state: State; modes: Modes | null }) {
  if (!modes) return null;
  const { start, end } = state.view.value;
  const first = Math.max(0, Math.floor(start / modes.cell));
  const last = Math.min(modes.cells, Math.ceil(end / modes.cell));
  const rows = modes.cpus
    .map((cpu, core) => {
      const sums = new Float64Array(MODES);
      let seen = 0;
      for (let cell = first; cell < last; cell++) {
        const at = (core * modes.cells + cell) * MODES;
        if (modes.shares[at] === UNSEEN) continue;
        seen++;
        for (let mode = 0; mode < MODES; mode++) sums[mode] += modes.shares[at + mode] / FULL;
      }
      return { cpu, core, seen, shares: Array.from(sums, (it) => it / (seen || 1)) };
    })
    .sort((a, b) => kernel(b.shares) - kernel(a.shares) || a.cpu - b.cpu)
    .map(({ cpu, core, seen, shares }) => [
      `core ${cpu}`,
      modes.nodes.length ? String(modes.nodes[core]) : "unknown",
      ...(seen ? shares.slice(0, modes.sampled ? 2 : MODES).map(percent) : ["no data"]),
    ]);
  const names = ["user", "system", "interrupts", "softirq", "steal"].slice(0, modes.sampled ? 2 : MODES);
  return <Table title="Cores in view, most kernel time first" heads={["core", "NUMA node", ...names]} rows={rows} />;
}

function kernel(shares: number[]): number {
  return shares[1] + shares[2] + shares[3] + shares[4];
}

function Curves({ state }: { state: State }) {
  const { start, end } = state.view.value;
  const rows = state.bundle.header.series.map(({ name, unit, of, cell }, i) => {
    const values = state.bundle.series[i].subarray(Math.floor(start / cell), Math.ceil(end / cell)).filter((it) => !Number.isNaN(it));
    const worth = (it: number) => (values.length ? measured(it, unit) : "unknown");
    const ends = values.reduce(([low, high], it) => [Math.min(low, it), Math.max(high, it)], [Infinity, -Infinity]);
    return [name, of, worth(ends[0]), worth(ends[1]), worth(values[values.length - 1])];
  });
  return <Table title="Curves in view" heads={["curve", "of", "lowest", "highest", "last"]} rows={rows} />;
}

function Frames({ state }: { state: State }) {
  const { tree } = state.bundle;
  const { total, own, all } = state.now.value;
  const rows: string[][] = [];
  for (let i = 0; i < total.length && all && rows.length < MOST;) {
    if (total[i] < LEAST * all) {
      i = tree.after[i];
      continue;
    }
    const depth = Number(tree.depth[i]);
    rows.push([
      String(depth),
      `${"\u00a0".repeat(Math.min(depth, 30))}${tree.names[tree.label[i]]}`,
      `${amount(state.bundle, total[i])} (${percent(total[i] / all)})`,
      percent(own[i] / all),
    ]);
    i++;
  }
  return <Table title="Flame graph: frames from 0.5% of all" heads={["depth", "frame", "total", "self"]} rows={rows} />;
}
