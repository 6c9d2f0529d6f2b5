// The diagnosis beside the time axis: the chain, stage by stage. A click on a stage or on its evidence goes to its time.
import type { Case, Ground, Remedy } from "./data";
import { clock } from "./format";
import { Proof, Stage } from "./Stage";
import type { State } from "./state";
import { onAxis, visit } from "./visit";

const SHOWN = 8; // of a list; the report has the rest
const PLANS = 20; // remedies shown, as in the HTML report
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
    <aside class="case" aria-label="diagnosis" tabIndex={0}>
      <h2 class={`verdict ${it.state.toLowerCase().replace(" ", "-")}`}>
        <b>{it.state.toLowerCase()}</b> {it.says}
      </h2>
      {it.tellings.map((telling, i) => (
        <section key={i}>
          {telling.chain.length > 1 || i === 0 ? (
            <h3>{telling.chain.length > 1 ? "What happened, first cause first" : "Found"}</h3>
          ) : null}
          <ol class="chain">
            {telling.chain.map((place, stage) => (
              <li key={place}>
                {stage ? <Grounds state={state} it={it} cause={telling.chain[stage - 1]} effect={place} /> : null}
                <Stage state={state} place={place} />
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
                <Stage state={state} place={riddle.finding} />
              </li>
            ))}
          </ul>
        </section>
      ) : null}
      <Others state={state} title="Earlier, before the recording" places={it.past ?? []} />
      <Others state={state} title="Noted: harms nobody" places={it.noted ?? []} />
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

function Others({ state, title, places }: { state: State; title: string; places: number[] }) {
  if (!places.length) return null;
  return (
    <section>
      <h3>{title}</h3>
      <ul class="riddles">
        {places.slice(0, SHOWN).map((place) => (
          <li key={place}>
            <Stage state={state} place={place} />
          </li>
        ))}
        {places.length > SHOWN ? <li>… and {places.length - SHOWN} more, in the tables</li> : null}
      </ul>
    </section>
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

/** A law may say itself how it knows: the badge does already. */
function said({ kind, says }: Ground): string {
  const words = `${GROUNDS[kind] ?? kind}: `;
  return says.toLowerCase().startsWith(words) ? says.slice(words.length) : says;
}

function Grounds({ state, it, cause, effect }: { state: State; it: Case; cause: number; effect: number }) {
  const link = it.links.find((one) => one.cause === cause && one.effect === effect);
  return (
    <ul class="grounds">
      {(link?.grounds ?? []).map((ground, i) => (
        <li key={i}>
          <span class={`badge ${ground.kind}`}>{GROUNDS[ground.kind] ?? ground.kind}</span> {said(ground)}{" "}
          <Proof state={state} evidence={ground.evidence} />
        </li>
      ))}
    </ul>
  );
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
                <button class="go" onClick={() => visit(state, chain[0])}>
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
