// Beside the grid while no node is open: what the nodes are sick of, and what it costs. A click filters by it.
import type { FleetState } from "./fleetState";
import { many } from "./fleetTold";
import { short } from "./format";

const SHOWN = 12; // root causes; the filter has the rest

export function FleetStatus({ state }: { state: FleetState }) {
  const { header, roots } = state.fleet;
  const { status } = header;
  const more = status.root_causes.length + status.more_root_causes - SHOWN;
  return (
    <aside class="case" aria-label="what nodes are sick of" tabIndex={0}>
      <h2>
        {status.core_hours_a_day === null ? "Cost unknown" : `${short(status.core_hours_a_day)} core-hours a day`}
        {status.money_a_day === null ? "" : `, ${short(status.money_a_day)} in money`}
      </h2>
      <section>
        <h3>Root causes</h3>
        {status.root_causes.length ? null : <p class="soft">none was found</p>}
        <ul class="causes">
          {status.root_causes.slice(0, SHOWN).map((it) => {
            const place = roots.findIndex((root) => root.sign === it.sign && root.subject === it.subject);
            return (
              <li key={`${it.sign} ${it.subject}`}>
                <button
                  class="go"
                  aria-pressed={place >= 0 && state.root.value === place}
                  onClick={() => {
                    state.root.value = state.root.value === place ? -1 : place;
                  }}
                >
                  <span class="sign">{it.sign}</span> <span class="subject">{it.subject}</span>
                  <span class="says">
                    {many(it.nodes, "node")}
                    {it.core_hours_a_day === null ? "" : `, ${short(it.core_hours_a_day)} core-hours a day`}
                    {it.trend === "unknown" ? "" : `, ${it.trend}`}
                  </span>
                </button>
              </li>
            );
          })}
        </ul>
        {more > 0 ? <p class="soft">{more} more: see the filter</p> : null}
      </section>
      {status.blind_signs.length ? (
        <section>
          <h3>Could not be checked</h3>
          <ul class="soft">
            {status.blind_signs.map((it) => (
              <li key={it.sign}>
                {it.sign} on {many(it.nodes, "node")}
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <section class="soft">
        {status.refused_nodes ? <p>{many(status.refused_nodes, "node")} sent something that was left out</p> : null}
        {status.clocks_ahead ? <p>{many(status.clocks_ahead, "node")} with a clock ahead of the others: these hours are left out</p> : null}
        {header.left_out ? <p>{many(header.left_out, "more node")} not on this page</p> : null}
      </section>
    </aside>
  );
}
