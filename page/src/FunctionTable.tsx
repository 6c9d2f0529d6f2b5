// Functions and processes as a table: sorted by any column, each line to search for, to copy, to ask who calls it.
import { useComputed, useSignal } from "@preact/signals";
import { PROCESS } from "./data";
import type { Tree } from "./data";
import { change, percent } from "./format";
import type { Flame } from "./samples";
import { exactly } from "./search";
import type { State } from "./state";

const MOST = 40; // lines: more are slow to lay out, and the tables have all frames
const LEAST = 5e-4; // of all

interface Line {
  label: number;
  name: string;
  self: number;
  total: number;
  before: number; // self in the baseline
  change: number;
}
type Column = "name" | "self" | "total" | "before" | "change";

export function FunctionTable({ state }: { state: State }) {
  const { tree } = state.bundle;
  const lines = useComputed(() => linesOf(tree, state.now.value, state.then.value));
  const isProcess = (it: Line) => tree.kinds[it.label] === PROCESS;
  return (
    <div class="words" tabIndex={0} role="region" aria-label="processes and functions">
      <h3>{state.then.value ? "Largest differences" : "Most CPU time"}</h3>
      <Sortable state={state} title="process" most={6} lines={lines.value.filter(isProcess)} />
      <Sortable state={state} title="function" most={MOST} lines={lines.value.filter((it) => !isProcess(it))} />
    </div>
  );
}

function Sortable({ state, title, lines, most }: { state: State; title: string; lines: Line[]; most: number }) {
  const { tree } = state.bundle;
  const chosen = useSignal<{ by: Column; down: boolean } | null>(null);
  const compared = state.then.value !== null;
  const whole = title === "process"; // a process has no self time of its own
  const columns: Column[] = compared ? ["name", "before", "self", "change"] : whole ? ["name", "self"] : ["name", "self", "total"];
  const heads: Record<Column, string> = {
    name: title,
    self: whole ? "total" : compared ? "self now" : "self",
    total: "total",
    before: "baseline",
    change: "change",
  };
  const by = chosen.value && columns.includes(chosen.value.by) ? chosen.value : { by: compared ? "change" : "self", down: true };
  const worth = (it: Line) => (by.by === "change" ? Math.abs(it.change) : it[by.by as "self"]);
  const less = (a: Line, b: Line) => (by.by === "name" ? b.name.localeCompare(a.name) : worth(b) - worth(a));
  const shown = [...lines].sort((a, b) => less(a, b) * (by.down ? 1 : -1)).slice(0, most);
  return (
    <table>
      <caption class="unseen">{title}s by share of CPU time</caption>
      <thead>
        <tr>
          {columns.map((it) => (
            <th key={it} scope="col" aria-sort={by.by !== it ? "none" : by.down ? "descending" : "ascending"}>
              <button
                onClick={() => {
                  chosen.value = { by: it, down: by.by === it ? !by.down : it !== "name" };
                }}
              >
                {heads[it]}
                {by.by === it ? (by.down ? " ▾" : " ▴") : ""}
              </button>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {shown.map((it) => (
          <tr key={it.label}>
            <td title={it.name}>
              <i class={["root", "process", "user", "kernel"][tree.kinds[it.label]]} />
              <button
                class="name"
                onClick={() => {
                  state.search.value = exactly(it.name);
                  state.about.value = it.label;
                }}
              >
                {it.name}
              </button>
            </td>
            {compared ? <td>{percent(it.before)}</td> : null}
            <td>{percent(it.self)}</td>
            {compared ? <td class={it.change > 0 ? "rose" : "fell"}>{change(it.change)}</td> : null}
            {compared || whole ? null : <td>{percent(it.total)}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Of each name its share of all: by itself, and with all it calls. A process has no self time: its total stands for it. */
function linesOf(tree: Tree, now: Flame, then: Flame | null): Line[] {
  const own = (flame: Flame | null): Float64Array => {
    const found = new Float64Array(tree.names.length);
    if (!flame?.all) return found;
    for (let i = 1; i < flame.own.length; i++) {
      const label = tree.label[i];
      found[label] += (tree.kinds[label] === PROCESS ? flame.total[i] : flame.own[i]) / flame.all;
    }
    return found;
  };
  const self = own(now);
  const before = own(then);
  const total = totals(tree, now);
  return tree.names
    .map((name, label) => ({ label, name, self: self[label], total: total[label], before: before[label], change: self[label] - before[label] }))
    .filter((it, label) => label > 0 && Math.max(it.self, it.before, then ? 0 : it.total) > LEAST);
}

/** A function that calls itself counts once: only its outermost call. */
function totals(tree: Tree, flame: Flame): Float64Array {
  const found = new Float64Array(tree.names.length);
  const until = new Uint32Array(tree.names.length); // inside a call of this name until that node
  for (let i = 1; i < flame.total.length && flame.all; i++) {
    const label = tree.label[i];
    if (!flame.total[i] || until[label] > i) continue;
    until[label] = tree.after[i];
    found[label] += flame.total[i] / flame.all;
  }
  return found;
}
