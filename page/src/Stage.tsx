// One finding in the panel: what it says and when, its evidence, what fixes it, what else could be the cause, what was not checked.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Evidence } from "./data";
import { alsoLocal, clock, stretch } from "./format";
import type { State } from "./state";
import { moment, onAxis, outside, rangeOf, visit } from "./visit";

const SHOWN = 8; // of a list; the report has the rest

export function Stage({ state, place }: { state: State; place: number }) {
  const it = state.bundle.header.case!;
  const finding = it.findings[place];
  const range = rangeOf(state, finding.span);
  const where = outside(state, range);
  const read = state.reading.value === place;
  const element = useRef<HTMLDivElement>(null);
  // A click on a lane leads here too.
  useEffect(() => {
    if (read) element.current?.scrollIntoView({ block: "nearest" });
  }, [read]);
  return (
    <div class="stage" ref={element} data-reading={read ? "yes" : undefined}>
      <button class="go" aria-current={read ? "true" : undefined} onClick={() => visit(state, place)}>
        <span class="sign">{finding.sign}</span> <span class="subject">{finding.subject}</span>
        <span class="says">{finding.says}</span>
        <span class="when">
          {stretch(state.bundle, range)}
          {alsoLocal(state.bundle, range.start)}
          {where ? `, ${where}` : ""}
        </span>
      </button>
      <Beside state={state} place={place} />
      <Proof state={state} evidence={finding.evidence} />
    </div>
  );
}

/** What belongs to a finding and is not evidence for it. */
function Beside({ state, place }: { state: State; place: number }) {
  const it = state.bundle.header.case!;
  const finding = it.findings[place];
  const fixes = it.remedies.filter((remedy) => remedy.cures === finding.sign && remedy.subject === finding.subject);
  const rivals = finding.rivals ?? [];
  const failed = it.unexplained.find((riddle) => riddle.finding === place)?.candidates ?? [];
  const unchecked = finding.unchecked ?? [];
  if (!fixes.length && !rivals.length && !failed.length && !unchecked.length) return null;
  return (
    <dl class="beside">
      {fixes.length ? (
        <div>
          <dt>fix</dt>
          <dd>
            {fixes.map((remedy) => (
              <span key={remedy.name}>
                {remedy.name} <span class={`badge ${remedy.risk}`}>{remedy.risk}</span>{" "}
              </span>
            ))}
          </dd>
        </div>
      ) : null}
      {rivals.length || failed.length ? (
        <div>
          <dt>other possible causes</dt>
          <dd>
            <ul>
              {rivals.slice(0, SHOWN).map((rival) => (
                <li key={rival.finding}>
                  <button class="at" onClick={() => visit(state, rival.finding)}>
                    {it.findings[rival.finding].sign}
                  </button>
                  {it.findings[rival.finding].subject}: weaker evidence ({rival.grounds.join(", ")})
                </li>
              ))}
              {failed.slice(0, SHOWN).map((candidate) => (
                <li key={candidate.law}>
                  {candidate.law.split("_to_")[0]}: {candidate.why_not}
                </li>
              ))}
            </ul>
          </dd>
        </div>
      ) : null}
      {unchecked.length ? (
        <div>
          <dt>causes not checked</dt>
          <dd>{unchecked.join(", ")}</dd>
        </div>
      ) : null}
    </dl>
  );
}

/** Filled in only when opened: there may be hundreds. */
export function Proof({ state, evidence }: { state: State; evidence: Evidence[] }) {
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
