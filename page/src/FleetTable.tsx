// The same nodes as a table, some at a time: for screen readers, and for whoever prefers figures.
import { useSignal } from "@preact/signals";
import { STATES } from "./fleetData";
import type { FleetState } from "./fleetState";
import { costOf, rootOf } from "./fleetTold";

const AT_ONCE = 50; // lines: thousands are slow to lay out

export function FleetTable({ state }: { state: FleetState }) {
  const { fleet } = state;
  const { order } = state.arranged.value;
  const turned = useSignal(0);
  const from = turned.value < order.length ? turned.value : 0; // fewer may fit since
  const traits = fleet.traits.slice(0, 4);
  const heads: [string, string][] = [
    ["name", "node"],
    ["harm", "core-hours a day"],
    ["broken", "broken"],
    ...traits.map((it): [string, string] => [`trait:${it.name}`, it.name.replace("_", " ")]),
  ];
  const end = Math.min(from + AT_ONCE, order.length);
  const turn = (by: number, words: string, possible: boolean) => (
    <button
      disabled={!possible}
      onClick={() => {
        turned.value = from + by;
      }}
    >
      {words}
    </button>
  );
  return (
    <div class="tables" tabIndex={0} role="region" aria-label="nodes as a table">
      <table>
        <caption>
          {order.length ? `nodes ${(from + 1).toLocaleString("en")} to ${end.toLocaleString("en")} of ${order.length.toLocaleString("en")}` : "no node fits"}
        </caption>
        <thead>
          <tr>
            {heads.map(([sort, words]) => (
              <th key={sort} scope="col" aria-sort={state.sort.value !== sort ? "none" : sort === "harm" || sort === "broken" ? "descending" : "ascending"}>
                <button
                  onClick={() => {
                    state.sort.value = sort;
                    turned.value = 0;
                  }}
                >
                  {words}
                  {state.sort.value === sort ? " ▾" : ""}
                </button>
              </th>
            ))}
            <th scope="col">state</th>
            <th scope="col">root cause</th>
          </tr>
        </thead>
        <tbody>
          {Array.from(order.subarray(from, end), (node) => (
            <tr key={node} aria-current={state.node.value === node ? "true" : undefined}>
              <th scope="row">
                <button
                  class="name"
                  onClick={() => {
                    state.node.value = node;
                  }}
                >
                  {fleet.name[node]}
                </button>
              </th>
              <td>{costOf(fleet, node)}</td>
              <td>{fleet.broken[node] || ""}</td>
              {traits.map((it) => (
                <td key={it.name}>{it.values[it.of[node]]}</td>
              ))}
              <td>
                {STATES[fleet.state[node]]}
                {fleet.silent[node] ? ", silent" : ""}
              </td>
              <td>{rootOf(fleet, node)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="buttons">
        {turn(-AT_ONCE, `previous ${AT_ONCE}`, from > 0)}
        {turn(AT_ONCE, `next ${AT_ONCE}`, end < order.length)}
      </p>
    </div>
  );
}
