// The fleet over time: sick nodes, what they cost, and where cgroups leak since when.
import { json, useAnswer } from "./ask";
import { Curve } from "./Curve";
import { rootName } from "./fleetData";
import type { FleetState } from "./fleetState";
import { hourOf, many, soonOf } from "./fleetTold";
import { short } from "./format";
import { Waiting } from "./Waiting";

const SHOWN = 25; // leaking nodes, the fastest

interface Growth {
  nodes: number;
  leaking_nodes: number;
  leaking: { node: string; dying: number; growth_per_hour: number; onset: number | null; soon_seconds: number | null }[];
  onsets: number;
  changed_before: { change: string; onsets: number; of_onsets: number; other_hours: number; q: number }[];
  at: number[];
  dying: (number | null)[];
}

export function FleetTrends({ state }: { state: FleetState }) {
  const { hours } = state.fleet.header;
  const answer = useAnswer("growth", json<Growth>);
  const roots = hours.roots.map((it) => ({ name: rootName(it), values: it.nodes }));
  return (
    <section class="common" aria-label="over time" tabIndex={0}>
      <h2>Sick nodes and what they cost, by the hour</h2>
      <div class="curves">
        <Curve state={state} title="sick nodes" at={hours.at} lines={[{ name: "sick nodes", values: hours.sick }]} />
        <Curve state={state} title="cores waited and burnt" at={hours.at} lines={[{ name: "cores", values: hours.cores }]} />
        <Curve state={state} title="nodes that sent this hour" at={hours.at} lines={[{ name: "nodes", values: hours.seen }]} />
        {roots.length ? <Curve state={state} title="nodes by root cause" at={hours.at} lines={roots} /> : null}
      </div>
      <h2>Leaks</h2>
      {answer.value ? (
        <Leaks state={state} it={answer.value} />
      ) : (
        <Waiting answer={answer} words="reading the metrics of every node: some seconds" />
      )}
    </section>
  );
}

function Leaks({ state, it }: { state: FleetState; it: Growth }) {
  return (
    <>
      <p class="lead">
        Dying cgroups grow on {many(it.leaking_nodes, "node")} of {it.nodes.toLocaleString("en")}; on {it.onsets.toLocaleString("en")} it began
        within this range.
      </p>
      {it.changed_before.map((change) => (
        <p key={change.change} class="lead">
          Just before: <b>{change.change}</b> at {change.onsets} of {change.of_onsets} onsets, else {change.other_hours.toLocaleString("en")} times.
        </p>
      ))}
      <div class="curves">
        <Curve state={state} title="dying cgroups a node, mean" at={it.at} lines={[{ name: "dying cgroups", values: it.dying }]} />
      </div>
      {it.leaking.length ? (
        <table class="leaking">
          <caption>the fastest {Math.min(SHOWN, it.leaking.length)}</caption>
          <thead>
            <tr>
              {["node", "dying", "growth an hour", "began (UTC)", "trouble in"].map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {it.leaking.slice(0, SHOWN).map((leak) => (
              <tr key={leak.node}>
                <th scope="row">
                  <button class="name" onClick={() => open(state, leak.node)}>
                    {leak.node}
                  </button>
                </th>
                <td>{leak.dying.toLocaleString("en")}</td>
                <td>{short(leak.growth_per_hour)}</td>
                <td>{leak.onset === null ? "before this range" : hourOf(leak.onset)}</td>
                <td>{soonOf(leak.soon_seconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </>
  );
}

function open(state: FleetState, name: string): void {
  const node = state.fleet.name.indexOf(name);
  if (node >= 0) state.node.value = node;
}
