// One node: what was found on it, hour by hour, and the way to its own page.
import { json, useAnswer } from "./ask";
import { Curve } from "./Curve";
import type { FleetState } from "./fleetState";
import { bytesOf, hourOf, many, soonOf } from "./fleetTold";
import { short } from "./format";
import { Waiting } from "./Waiting";
import { Round } from "./Round";

interface Found {
  sign: string;
  subject: string;
  role: string;
  start: number;
  end: number;
  times: number;
  says: string;
  core_hours: number | null;
  broken: number;
  held_bytes: number | null;
  soon_seconds: number | null;
  cost_unknown: boolean;
}
interface Sent {
  name: string;
  traits: Record<string, string>;
  labels: Record<string, string>;
  cores: number | null;
  last: number;
  blind: string[];
  findings: Found[];
  units: { unit: string; active: boolean | null; enabled: boolean | null; restarts: number }[];
  events: { kind: string; subject: string; many: number; last: number }[];
  jobs: { all: number; failed: number };
  hours: { at: number[]; cores: (number | null)[]; dying: (number | null)[] };
  page: string;
  commands: { says: string; command: string }[];
}
const ROLES: Record<string, string> = {
  root: "root cause",
  effect: "follows from it",
  unexplained: "no cause found",
  noted: "harms nobody",
  unsure: "not sure",
  past: "earlier",
};

export function FleetNode({ state, node }: { state: FleetState; node: number }) {
  const answer = useAnswer(`node?id=${state.fleet.id[node]}`, json<Sent>);
  const it = answer.value;
  return (
    <aside class="case" aria-label={`node ${state.fleet.name[node]}`} tabIndex={0}>
      <header class="node-head">
        <h2>{state.fleet.name[node]}</h2>
        <Round
          label="close this node"
          sign="×"
          act={() => {
            state.node.value = null;
          }}
        />
      </header>
      {it ? <Details state={state} it={it} /> : <Waiting answer={answer} words="reading what it sent" />}
    </aside>
  );
}

function Details({ state, it }: { state: FleetState; it: Sent }) {
  const traits = [...Object.entries(it.traits), ...Object.entries(it.labels)].filter(([, value]) => value);
  const dying = it.hours.dying.some((value) => value !== null);
  return (
    <>
      <p class="soft">
        last heard of {hourOf(it.last)} UTC{it.cores ? `, ${many(it.cores, "core")}` : ""}, {many(it.jobs.all, "job")}
        {it.jobs.all ? `, ${it.jobs.failed} failed` : ""}
      </p>
      <section>
        <h3>Found</h3>
        {it.findings.length ? null : <p class="soft">nothing</p>}
        <ul class="findings">
          {it.findings.map((found) => (
            <li key={`${found.sign} ${found.subject} ${found.role}`}>
              <span class={`badge ${found.role}`}>{ROLES[found.role] ?? found.role}</span> <span class="sign">{found.sign}</span>{" "}
              <span class="subject">{found.subject}</span>
              <span class="says">{found.says}</span>
              <span class="when">{costs(found)}</span>
            </li>
          ))}
        </ul>
      </section>
      {it.blind.length ? (
        <section>
          <h3>Could not be checked</h3>
          <p class="soft">{it.blind.join(", ")}</p>
        </section>
      ) : null}
      <section>
        <Curve state={state} title="cores waited and burnt" at={it.hours.at} lines={[{ name: "cores", values: it.hours.cores }]} tall={84} />
        {dying ? (
          <Curve state={state} title="dying cgroups" at={it.hours.at} lines={[{ name: "dying cgroups", values: it.hours.dying }]} tall={84} />
        ) : null}
      </section>
      {it.events.length ? (
        <section>
          <h3>What broke</h3>
          <ul>
            {it.events.map((event) => (
              <li key={`${event.kind} ${event.subject}`}>
                {event.kind} {event.subject}: {event.many} times, last {hourOf(event.last)} UTC
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <section>
        <h3>Look at the node itself</h3>
        {it.page ? (
          <p>
            <a href={it.page} target="_blank" rel="noopener noreferrer">
              {it.page}
            </a>
          </p>
        ) : null}
        <ul class="commands">
          {it.commands.map((command) => (
            <li key={command.command}>
              {command.says}
              <code>{command.command}</code>
            </li>
          ))}
        </ul>
      </section>
      <section>
        <h3>What it is</h3>
        <dl class="traits">
          {traits.map(([name, value]) => (
            <div key={name}>
              <dt>{name.replace("_", " ")}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </section>
      {it.units.length ? (
        <details>
          <summary>{many(it.units.length, "unit")}</summary>
          <ul>
            {it.units.map((unit) => (
              <li key={unit.unit}>
                {unit.unit}: {unit.active ? "active" : "not active"}
                {unit.enabled ? ", enabled" : ""}
                {unit.restarts ? `, ${many(unit.restarts, "restart")}` : ""}
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </>
  );
}

function costs(found: Found): string {
  const parts = [`${hourOf(found.start)} to ${hourOf(found.end)} UTC, seen ${many(found.times, "time")}`];
  if (found.cost_unknown && found.role === "root") parts.push("cost unknown"); // what follows from it costs nothing of its own
  if (found.core_hours) parts.push(`${short(found.core_hours)} core-hours`);
  if (found.broken) parts.push(`${found.broken} broken`);
  if (found.held_bytes) parts.push(`${bytesOf(found.held_bytes)} held`);
  if (found.soon_seconds !== null) parts.push(`trouble in ${soonOf(found.soon_seconds)}`);
  return parts.join(" · ");
}
