// The flame graph of the chosen range, or the difference of two ranges, with the same as a table beside it.
import { useComputed } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Actions } from "./Actions";
import { depthOf, differenceOf, hiddenOf, rise } from "./flame";
import type { Drawing } from "./flame";
import { amount, change, lasting, localOffset, localClock, percent, stretch } from "./format";
import { FrameBar } from "./FrameBar";
import { Flames } from "./FrameCanvas";
import { FunctionTable } from "./FunctionTable";
import { frameTold } from "./hover";
import type { Range } from "./samples";
import { SandwichView } from "./SandwichView";
import type { State } from "./state";
import { Tables } from "./Tables";
import { useWidth } from "./width";

export function FlameView({ state }: { state: State }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const { tree } = state.bundle;
  const drawing = useComputed((): Drawing => {
    const now = state.now.value;
    const then = state.then.value;
    const byBaseline = then !== null && state.byBaseline.value;
    const flame = byBaseline ? then : now;
    const focus = flame.total[state.focus.value] ? state.focus.value : 0;
    return {
      tree,
      flame,
      focus,
      difference: then && differenceOf(now, then),
      labels: state.labels.value,
      upright: state.upright.value,
      palette: state.palette.value,
      width: width.value,
    };
  });
  const tell = (node: number) => {
    const told = frameTold(state, node);
    const { difference } = drawing.value;
    if (difference)
      told.lines.push(
        `change: total ${change(rise(difference, node, "total"))}, self ${change(rise(difference, node, "own"))}`,
      );
    return told;
  };
  const pane = state.pane.value;
  const empty = !drawing.value.flame.all;
  return (
    <section class="flame" aria-label="flame graph">
      <Heading state={state} drawing={drawing} />
      <FrameBar state={state} />
      <div class={`sides of-${pane}`} onScroll={() => (state.tip.value = null)}>
        {pane === "tables" ? <Tables state={state} /> : null}
        {pane === "callers" ? <SandwichView state={state} /> : null}
        {/* It stays, so that its width is known when it comes back. */}
        <div
          class="graph"
          ref={place}
          hidden={pane !== "flame"}
          tabIndex={empty ? -1 : 0}
          role="region"
          aria-label="frames"
          onScroll={() => {
            state.tip.value = null;
          }}
        >
          {empty ? (
            <p class="nothing">{state.bundle.rows.at.length ? "no samples in this time range" : "this source has no stacks"}</p>
          ) : (
            <>
              <Flames state={state} drawing={drawing} tell={tell} />
              <Hidden drawing={drawing} />
            </>
          )}
        </div>
        {pane === "tables" || (empty && !state.then.value?.all) ? null : <FunctionTable state={state} />}
      </div>
    </section>
  );
}

function Hidden({ drawing }: { drawing: ReadonlySignal<Drawing> }) {
  const hidden = drawing.value.width ? hiddenOf(drawing.value) : 0;
  if (!hidden) return null;
  return (
    <p class="hidden-frames">
      {hidden.toLocaleString("en")} frame{hidden === 1 ? " is" : "s are"} narrower than a pixel and not drawn: click one to see what is
      in it, or look into the tables
    </p>
  );
}

function Chip({ state, range, kind }: { state: State; range: Range; kind: string }) {
  const { bundle } = state;
  const local = localOffset(bundle, range.start);
  const title = local ? `local time (UTC${local}): ${localClock(bundle, range.start)} – ${localClock(bundle, range.end)}` : "";
  return (
    <span class={`chip ${kind}`} title={title}>
      {stretch(bundle, range)}
      {bundle.header.clock === "unix" ? " UTC" : ""}
    </span>
  );
}

function Heading({ state, drawing }: { state: State; drawing: ReadonlySignal<Drawing> }) {
  const { bundle } = state;
  const range = state.chosen.value;
  const other = state.baseline.value;
  const now = state.now.value;
  const length = range ? range.end - range.start : bundle.header.length;
  const marked = state.marked.value;
  let found = 0;
  if (marked) for (let i = 0; i < marked.length; i++) if (marked[i]) found += now.own[i];
  return (
    <header>
      <h2>
        {state.then.value ? "Difference" : "Flame graph"}
        {range ? <Chip state={state} range={range} kind="chosen" /> : <span class="chip chosen">everything</span>}
        {other ? (
          <>
            {state.then.value ? "compared with" : "not compared with"}
            <Chip state={state} range={other} kind="baseline" />
          </>
        ) : null}
      </h2>
      <p class="sum">
        {bundle.header.clock === "none" ? "" : `${lasting(length)} · `}
        {amount(bundle, now.all)}
        {bundle.header.unit === "nanoseconds" ? " of CPU time" : ""}
        {marked ? (
          <>
            {" "}
            · <em>{percent(now.all ? found / now.all : 0)} matched</em>
          </>
        ) : null}
      </p>
      <Actions state={state} drawing={drawing} depth={() => depthOf(drawing.value)} />
      <p class="says" role="status">
        {state.refused.value ? <b class="refused">No difference: {state.refused.value}</b> : null}
        {state.comparing.value ? "Drag over the time to compare with, or press s to take what is in view; Esc leaves it." : ""}
        {state.notice.value ? <b class="notice">{state.notice.value}</b> : null}
      </p>
    </header>
  );
}
