// The diagnosis beside the time axis: the chain, stage by stage. A click on a stage or on its evidence goes to its time.
import { useSignal } from "@preact/signals";
import type { Case, Evidence, Finding, Remedy } from "./data";
import { SECOND, clock, stretch } from "./format";
import type { State } from "./state";

const SHOWN = 8; // of a list; the report has the rest
const PLANS = 20; // remedies shown, as in the HTML report
const AROUND = 3 * SECOND; // shown on both sides of a moment
// What each kind of evidence means, in words.
const GROUNDS: Record<string, string> = {
  order: "came first",
  place: "same place",
  dose: "amounts match",
  mechanism: "seen in stacks",
  experiment: "stopped after the fix",
};

export function CasePanel({ state }: { state: State }) {
  const it = state.bundle.header.case;
  if (!it) return null;
  const blind = it.verdicts.filter((verdict) => verdict.state === "blind" || verdict.state === "broken");
  return (
    <aside class="case" aria-label="diagnosis">
      <p class={`verdict ${it.state.toLowerCase().replace(" ", "-")}`}>
        <b>{it.state.toLowerCase()}</b> {it.says}
      </p>
      {it.tellings.map((telling, i) => (
        <section key={i}>
          {telling.chain.length > 1 || i === 0 ? (
            <h3>{telling.chain.length > 1 ? "What happened, first cause first" : "Found"}</h3>
          ) : null}
          <ol class="chain">
            {telling.chain.map((place, stage) => (
              <li key={place}>
                {stage ? <Grounds state={state} it={it} cause={telling.chain[stage - 1]} effect={place} /> : null}
                <Stage state={state} finding={it.findings[place]} place={place} />
              </li>
            ))}
          </ol>
          {telling.again.length ? <Again state={state} it={it} chains={telling.again} /> : null}
        </section>
      ))}
      {it.unexplained.length ? (
        <section>
          <h3>No cause found</h3>
          <ul class="riddles">
            {it.unexplained.slice(0, SHOWN).map((riddle) => (
              <li key={riddle.finding}>
                <Stage state={state} finding={it.findings[riddle.finding]} place={riddle.finding} />
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      {it.remedies.length ? (
        <section>
          <h3>What to do</h3>
          {it.remedies.slice(0, PLANS).map((remedy) => (
            <Offer key={`${remedy.name} ${remedy.subject}`} remedy={remedy} />
          ))}
          <p>
            <code>zombiescope fix</code> shows the commands, and how each is undone.
          </p>
        </section>
      ) : null}
      {blind.length ? (
        <details>
          <summary>
            {blind.length} of {it.verdicts.length} signs could not be checked
          </summary>
          <ul class="blind">
            {blind.map((verdict) => (
              <li key={verdict.sign}>
                <b>{verdict.sign}</b> {verdict.says}
              </li>
            ))}
          </ul>
        </details>
      ) : null}
    </aside>
  );
}

/** A remedy as the reports show it: its risk, and that of a step where it is another one. */
function Offer({ remedy }: { remedy: Remedy }) {
  return (
    <details class="remedy">
      <summary>
        <b>{remedy.name}</b> <span class={`badge ${remedy.risk}`}>{remedy.risk}</span>{" "}
        <span class="subject">{remedy.subject}</span>
      </summary>
      <ol>
        {remedy.steps.map((step, i) => (
          <li key={i}>
            {step.says}
            {step.risk === remedy.risk ? null : <span class={`badge ${step.risk}`}>{step.risk}</span>}
          </li>
        ))}
      </ol>
    </details>
  );
}

/** Seconds since 1970 as a time on the axis. */
function onAxis(state: State, at: number): number {
  const origin = BigInt(state.bundle.header.origin);
  const whole = Math.floor(at);
  return Number(BigInt(whole) * 1_000_000_000n - origin) + (at - whole) * SECOND;
}

function go(state: State, finding: Finding, place: number): void {
  const start = onAxis(state, finding.span.start);
  const end = onAxis(state, finding.span.end);
  const around = Math.max((end - start) * 0.25, AROUND);
  state.reading.value = place;
  if (end < 0) return; // the kernel log reaches further back than the recording
  state.choose({ start, end });
  state.show({ start: start - around, end: end + around });
}

function Stage({ state, finding, place }: { state: State; finding: Finding; place: number }) {
  const range = { start: onAxis(state, finding.span.start), end: onAxis(state, finding.span.end) };
  return (
    <div class="stage" data-reading={state.reading.value === place ? "yes" : undefined}>
      <button class="go" onClick={() => go(state, finding, place)}>
        <span class="sign">{finding.sign}</span> <span class="subject">{finding.subject}</span>
        <span class="says">{finding.says}</span>
        <span class="when">
          {stretch(state.bundle, range)}
          {range.end < 0 ? ", before the recording" : ""}
        </span>
      </button>
      <Proof state={state} evidence={finding.evidence} />
    </div>
  );
}

function Grounds({ state, it, cause, effect }: { state: State; it: Case; cause: number; effect: number }) {
  const link = it.links.find((one) => one.cause === cause && one.effect === effect);
  return (
    <ul class="grounds">
      {(link?.grounds ?? []).map((ground, i) => (
        <li key={i}>
          <span class={`badge ${ground.kind}`}>{GROUNDS[ground.kind] ?? ground.kind}</span> {ground.says}{" "}
          <Proof state={state} evidence={ground.evidence} />
        </li>
      ))}
    </ul>
  );
}

/** Filled in only when opened: there may be hundreds. */
function Proof({ state, evidence }: { state: State; evidence: Evidence[] }) {
  const open = useSignal(false);
  return (
    <details
      class="proof"
      onToggle={(event) => {
        open.value = event.currentTarget.open;
      }}
    >
      <summary>evidence</summary>
      <ul>
        {(open.value ? evidence.slice(0, SHOWN) : []).map((it, i) => (
          <li key={i}>
            <button class="at" onClick={() => moment(state, it.at)}>
              {clock(state.bundle, onAxis(state, it.at))}
            </button>
            <span>
              {it.what} {it.subject}{" "}
              <b>{it.value === null ? "unknown" : Number(it.value.toPrecision(6)).toLocaleString("en")}</b>
            </span>
            {it.text ? <q>{it.text}</q> : null}
            <code>{it.source}</code>
          </li>
        ))}
        {evidence.length > SHOWN ? <li>… and {evidence.length - SHOWN} more</li> : null}
      </ul>
    </details>
  );
}

function moment(state: State, at: number): void {
  const time = onAxis(state, at);
  if (time < 0) return;
  state.choose({ start: time - SECOND, end: time + SECOND });
  state.show({ start: time - AROUND * 3, end: time + AROUND * 3 });
}

/** Further chains of the same kind: one line each, to jump to. */
function Again({ state, it, chains }: { state: State; it: Case; chains: number[][] }) {
  return (
    <div class="again">
      <h4>The same, {chains.length} more times</h4>
      <ul>
        {chains
          .slice(0, SHOWN * 2)
          .filter((chain) => chain.length)
          .map((chain) => {
            const first = it.findings[chain[0]];
            const last = it.findings[chain[chain.length - 1]];
            return (
              <li key={chain.join()}>
                <button class="go" onClick={() => go(state, first, chain[0])}>
                  <span class="when">{clock(state.bundle, onAxis(state, first.span.start))}</span> {first.sign}
                  {last === first ? "" : ` → ${last.sign}`}
                </button>
              </li>
            );
          })}
      </ul>
    </div>
  );
}
