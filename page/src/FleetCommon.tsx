// What sick nodes have in common and healthy ones have not: causes with their figures, and what cannot be told.
import { json, useAnswer } from "./ask";
import { SickChoice } from "./FleetBar";
import { groupings } from "./fleetOrder";
import type { FleetState } from "./fleetState";
import { many } from "./fleetTold";
import { short } from "./format";
import { Waiting } from "./Waiting";

const SHOWN = 5; // ways to the nodes

interface Cause {
  factor: string;
  sick_with: number;
  sick_without: number;
  healthy_with: number;
  odds_ratio: (number | null)[]; // low, best, high
  p: number;
  q: number;
  dose: string;
  explains_away: string[];
  says: string;
}
interface Compared {
  sick: number;
  nodes: number;
  sick_means: string;
  causes: Cause[];
  cannot_tell: { factors: string[]; would_tell: string }[];
  blind: number;
  tested: number;
  hot_functions: { says: string }[];
  left_out: string[];
}

export function FleetCommon({ state }: { state: FleetState }) {
  const answer = useAnswer(`compare?sick=${encodeURIComponent(state.sick.value)}`, json<Compared>);
  const it = answer.value;
  return (
    <section class="common" aria-label="what sick nodes have in common" tabIndex={0}>
      <div class="nodes-bar">
        <SickChoice state={state} />
      </div>
      {it ? <Told state={state} it={it} /> : <Waiting answer={answer} words="comparing every trait, alone and in pairs: some seconds" />}
    </section>
  );
}

function Told({ state, it }: { state: FleetState; it: Compared }) {
  return (
    <>
      <p class="lead">
        {it.sick.toLocaleString("en")} of {many(it.nodes, "node")} are sick: {it.sick_means}.{" "}
        {it.blind ? `${many(it.blind, "node")} could not check it and are left out. ` : ""}
        {it.tested ? `${it.tested.toLocaleString("en")} factors and pairs of factors were tested.` : ""}
      </p>
      {it.causes.length || it.cannot_tell.length ? null : (
        <p class="nothing">Nothing that was recorded separates the sick nodes from the others.</p>
      )}
      {it.causes.map((cause, i) => (
        <CauseBox key={cause.factor} state={state} cause={cause} first={i === 0} />
      ))}
      {it.cannot_tell.map((tie) => (
        <article key={tie.factors.join()} class="cause tie">
          <h3>Cannot tell: {tie.factors.join(" or ")}</h3>
          <p>These nodes do not separate them. {tie.would_tell}.</p>
          <Groups state={state} factors={tie.factors} />
        </article>
      ))}
      {it.hot_functions.length ? <p>What happens on them: {it.hot_functions[0].says}.</p> : null}
      {it.left_out.length ? <p class="soft">Not compared, as nearly every node has its own: {it.left_out.join("; ")}</p> : null}
    </>
  );
}

function CauseBox({ state, cause, first }: { state: FleetState; cause: Cause; first: boolean }) {
  const [low, best, high] = cause.odds_ratio;
  return (
    <article class="cause">
      <h3>
        {first ? "Most likely: " : "Also: "}
        {cause.factor}
      </h3>
      <p>{cause.says}.</p>
      <table>
        <caption class="unseen">{cause.factor} in figures</caption>
        <thead>
          <tr>
            <th scope="col">sick with it</th>
            <th scope="col">sick without</th>
            <th scope="col">healthy with it</th>
            <th scope="col">odds ratio</th>
            <th scope="col">95 % interval</th>
            <th scope="col">p</th>
            <th scope="col">q</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <td>{cause.sick_with.toLocaleString("en")}</td>
            <td>{cause.sick_without.toLocaleString("en")}</td>
            <td>{cause.healthy_with.toLocaleString("en")}</td>
            <td>{figure(best)}</td>
            <td>
              {figure(low)} to {figure(high)}
            </td>
            <td>{cause.p.toExponential(1)}</td>
            <td>{cause.q.toExponential(1)}</td>
          </tr>
        </tbody>
      </table>
      <Interval low={low} best={best} high={high} />
      {cause.explains_away.length ? (
        <p>
          Explained by it: <span class="subject">{cause.explains_away.join(", ")}</span>
        </p>
      ) : null}
      <Groups state={state} factors={[cause.factor, ...cause.explains_away]} />
    </article>
  );
}

const WIDEST = 5; // powers of ten to either side of 1

/** On a logarithmic scale from a hundred-thousandth to a hundred thousand; 1 in the middle makes no difference. */
function Interval({ low, best, high }: { low: number | null; best: number | null; high: number | null }) {
  if (low === null || best === null || high === null) return null;
  const place = (ratio: number) => 50 + (50 * Math.min(Math.max(Math.log10(Math.max(ratio, 1e-9)), -WIDEST), WIDEST)) / WIDEST;
  return (
    <div class="interval" aria-hidden="true">
      <i class="one" />
      <i class="span" style={{ left: `${place(low)}%`, width: `${Math.max(place(high) - place(low), 0.5)}%` }} />
      <i class="best" style={{ left: `${place(best)}%` }} />
      <span>no difference</span>
    </div>
  );
}

/** To the nodes, grouped by each trait of some factors: "unit:a.service=active", "zone=1a". A pair has no group of its own. */
function Groups({ state, factors }: { state: FleetState; factors: string[] }) {
  const known = new Map(groupings(state.fleet));
  const traits = new Set(factors.filter((it) => !it.includes(" & ")).map((it) => it.slice(0, it.lastIndexOf("="))));
  return (
    <p class="buttons">
      {[...traits].slice(0, SHOWN).map((trait) => {
        const group = trait.startsWith("unit:") ? trait : `trait:${trait}`;
        return known.has(group) ? (
          <button
            key={trait}
            onClick={() => {
              state.group.value = group;
              state.pane.value = "nodes";
            }}
          >
            nodes by {trait}
          </button>
        ) : null;
      })}
    </p>
  );
}

function figure(value: number | null): string {
  return value === null ? "unknown" : short(value);
}
