// The flame graph of the chosen range, or the difference of two ranges, with the same as a table beside it.
import { useComputed } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Canvas } from "./Canvas";
import { PROCESS } from "./data";
import { ROW, depthOf, differenceOf, frameAt, paintFlame, ranked, rise } from "./flame";
import type { Drawing } from "./flame";
import { amount, change, lasting, percent, stretch } from "./format";
import { frameTold } from "./hover";
import type { State } from "./state";
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
  const height = useComputed(() => Math.max(6, depthOf(drawing.value)) * ROW);
  const pointed = (event: PointerEvent | MouseEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return frameAt(drawing.value, height.value, event.clientX - box.left, event.clientY - box.top);
  };
  const hover = (event: PointerEvent) => {
    const node = pointed(event);
    if (node < 0) {
      state.tip.value = null;
      return;
    }
    const told = frameTold(state, node);
    const { difference } = drawing.value;
    if (difference)
      told.lines.push(
        `change: total ${change(rise(difference, node, "total"))}, self ${change(rise(difference, node, "own"))}`,
      );
    state.tip.value = { x: event.clientX, y: event.clientY, ...told };
  };
  const empty = !drawing.value.flame.all;
  return (
    <section class="flame" aria-label="flame graph">
      <Heading state={state} />
      <div class="sides">
        <div class="graph" ref={place}>
          {empty ? (
            <p class="nothing">{state.bundle.rows.at.length ? "no samples in this time range" : "this source has no stacks"}</p>
          ) : (
            <div
              class="frames"
              style={{ height: `${height.value}px` }}
              onPointerMove={hover}
              onPointerLeave={() => {
                state.tip.value = null;
              }}
              onClick={(event) => {
                const node = pointed(event);
                if (node >= 0) state.focus.value = node;
              }}
            >
              <Canvas
                name="flames"
                width={width.value}
                height={height.value}
                paint={(context, _, tall) => {
                  paintFlame(context, drawing.value, tall);
                }}
              />
            </div>
          )}
        </div>
        {empty && !state.then.value?.all ? null : <Words state={state} />}
      </div>
    </section>
  );
}

function Heading({ state }: { state: State }) {
  const { bundle } = state;
  const range = state.chosen.value;
  const other = state.baseline.value;
  const now = state.now.value;
  const whole = range === null;
  const length = range ? range.end - range.start : bundle.header.length;
  const marked = state.marked.value;
  let found = 0;
  if (marked) for (let i = 0; i < marked.length; i++) if (marked[i]) found += now.own[i];
  return (
    <header>
      <h2>
        {other ? "Difference" : "Flame graph"}
        <span class="chip chosen">{whole ? "everything" : stretch(bundle, range)}</span>
        {other ? (
          <>
            compared with<span class="chip baseline">{stretch(bundle, other)}</span>
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
      <div class="buttons">
        {state.focus.value ? (
          <button
            onClick={() => {
              state.focus.value = 0;
            }}
          >
            show all frames
          </button>
        ) : null}
        {!whole ? (
          <button onClick={() => state.show({ start: range.start - length * 0.1, end: range.end + length * 0.1 })}>
            zoom to selection
          </button>
        ) : null}
        {other ? (
          <button
            aria-pressed={state.byBaseline.value}
            title="draw frames as wide as in the baseline"
            onClick={() => {
              state.byBaseline.value = !state.byBaseline.value;
            }}
          >
            baseline widths
          </button>
        ) : null}
        {!whole || other ? <button onClick={() => state.choose(null)}>clear selection</button> : null}
      </div>
    </header>
  );
}

/** The largest differences, or where most CPU time is spent, as a table. */
function Words({ state }: { state: State }) {
  const { tree } = state.bundle;
  const now = state.now.value;
  const then = state.then.value;
  const tables = [
    { title: "process", lines: ranked(tree, now, then, 6, PROCESS) },
    { title: "function, self time", lines: ranked(tree, now, then, 16) },
  ];
  return (
    <div class="words">
      <h3>{then ? "Largest differences" : "Most CPU time"}</h3>
      {tables.map(({ title, lines }) => (
        <table key={title}>
          <thead>
            <tr>
              <th scope="col">{title}</th>
              {then ? <th scope="col">baseline</th> : null}
              <th scope="col">now</th>
              {then ? <th scope="col">change</th> : null}
            </tr>
          </thead>
          <tbody>
            {lines.map((it) => (
              <tr
                key={it.label}
                onClick={() => {
                  state.search.value = `^${escaped(tree.names[it.label])}$`;
                }}
                title={`${tree.names[it.label]} — click to search`}
              >
                <td>
                  <i class={["root", "process", "user", "kernel"][tree.kinds[it.label]]} />
                  {tree.names[it.label]}
                </td>
                {then ? <td>{percent(it.then)}</td> : null}
                <td>{percent(it.now)}</td>
                {then ? <td class={it.now > it.then ? "rose" : "fell"}>{change(it.now - it.then)}</td> : null}
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  );
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
