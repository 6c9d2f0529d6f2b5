// The bar above all panes: which fleet, which pane. And the one above the nodes: filter, sort, group.
import type { Signal } from "@preact/signals";
import { rootName } from "./fleetData";
import { KINDS, groupings, sorts } from "./fleetOrder";
import { PANES } from "./fleetState";
import type { FleetState } from "./fleetState";
import { hourOf, many } from "./fleetTold";
import { ThemeAndHelp } from "./Round";

export function FleetBar({ state }: { state: FleetState }) {
  const { header } = state.fleet;
  const { status } = header;
  return (
    <header class="bar">
      <h1>zombiescope fleet</h1>
      <p class="what">
        {many(status.nodes, "node")}: <b>{status.sick.toLocaleString("en")} sick</b>, {status.blind.toLocaleString("en")} not fully checked,{" "}
        {status.silent.toLocaleString("en")} silent
        <span>
          {hourOf(status.span.start)} to {hourOf(status.span.end)} UTC · {header.label}
        </span>
      </p>
      <nav class="buttons group" aria-label="panes">
        {PANES.map(([pane, words]) => (
          <button
            key={pane}
            aria-pressed={state.pane.value === pane}
            onClick={() => {
              state.pane.value = pane;
            }}
          >
            {words}
          </button>
        ))}
      </nav>
      <ThemeAndHelp state={state} />
    </header>
  );
}

export function NodesBar({ state }: { state: FleetState }) {
  const { fleet } = state;
  const roots = fleet.roots.map((it, i): [string, string] => [String(i), `${rootName(it)} (${it.nodes})`]);
  const root = String(state.root.value);
  const shown = state.arranged.value.order.length;
  return (
    <div class="nodes-bar" role="search" aria-label="nodes that are shown">
      <input
        id="search"
        type="search"
        aria-label="filter by name or trait"
        placeholder="name, zone, image, label …"
        value={state.text.value}
        onInput={(event) => {
          state.text.value = event.currentTarget.value;
        }}
      />
      <Choice words="show" name="kind" value={state.kind.value} of={KINDS} set={set(state.kind)} />
      <Choice
        words="root cause"
        name="root"
        value={root}
        of={[["-1", "any or none"], ...roots, ["-2", "sick, none found"]]}
        set={(value) => {
          state.root.value = Number(value);
        }}
      />
      <Choice words="group by" name="group" value={state.group.value} of={groupings(fleet)} set={set(state.group)} />
      <Choice words="sort by" name="sort" value={state.sort.value} of={sorts(fleet)} set={set(state.sort)} />
      <span class="buttons group">
        {["grid", "table"].map((it) => (
          <button
            key={it}
            aria-pressed={state.asTable.value === (it === "table")}
            onClick={() => {
              state.asTable.value = it === "table";
            }}
          >
            {it}
          </button>
        ))}
      </span>
      <span class="count" role="status">
        {shown === fleet.count ? many(fleet.count, "node") : `${shown.toLocaleString("en")} of ${many(fleet.count, "node")}`}
      </span>
    </div>
  );
}

function set(signal: Signal<string>): (value: string) => void {
  return (value) => {
    signal.value = value;
  };
}

interface Choosing {
  words: string;
  name: string;
  value: string;
  of: [string, string][];
  set: (value: string) => void;
}

export function Choice({ words, name, value, of, set }: Choosing) {
  return (
    <label class="choice">
      {words}{" "}
      <select name={name} value={value} onChange={(event) => set(event.currentTarget.value)}>
        {of.map(([key, says]) => (
          <option key={key} value={key}>
            {says}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Which nodes count as sick when cohorts are compared. */
export function SickChoice({ state }: { state: FleetState }) {
  const signs = state.fleet.header.signs.map((it): [string, string] => [it.sign, `${it.sign} (${many(it.nodes, "node")})`]);
  const choose = (sign: string) => {
    state.sick.value = sign;
    state.focus.value = 0; // a frame of another graph
  };
  return (
    <Choice words="sick means" name="sick" value={state.sick.value} of={[["", "anything that harms somebody"], ...signs]} set={choose} />
  );
}
