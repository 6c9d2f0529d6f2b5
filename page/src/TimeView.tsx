// Everything under the time axis, and what is drawn over it: ranges, events, the time under the pointer.
import { useMemo, useRef } from "preact/hooks";
import { paintAxis, paintOverview } from "./axis";
import { Canvas } from "./Canvas";
import { coreRows } from "./coreRows";
import type { CoreRow } from "./coreRows";
import type { Modes } from "./data";
import { paintEvents } from "./events";
import { SECOND, lasting, measured, short } from "./format";
import { gesturesOf } from "./gestures";
import { boxesOf, levelOf, paintHeatmap, scaleOf } from "./heatmap";
import { toldOf } from "./hover";
import { heightOf, lanesOf } from "./lanes";
import type { Lane } from "./lanes";
import { secondsEach } from "./samples";
import type { Range } from "./samples";
import { SeriesView, pooled } from "./SeriesView";
import type { State } from "./state";
import { paintStrip, pyramidOf } from "./strip";
import type { Pyramid } from "./strip";
import { useWidth } from "./width";

/** Overview and axis stay on top; the lanes below them scroll. */
export function TimeView({ state, modes }: { state: State; modes: Modes | null }) {
  const order = state.order.value;
  const cores = useMemo(() => (modes ? coreRows(modes, order) : []), [order]);
  const pyramid = useMemo(() => (modes ? pyramidOf(modes) : null), []);
  const lanes = useMemo(() => lanesOf(state.bundle, modes, cores), [cores]);
  const ahead = (lane: Lane) => lane.kind === "overview" || lane.kind === "axis";
  const first = lanes.find((it) => !ahead(it))?.top ?? 0;
  const shifted = lanes.filter((it) => !ahead(it)).map((it) => ({ ...it, top: it.top - first }));
  const common = { state, modes, pyramid, cores };
  return (
    <section
      class="time"
      aria-label="time"
      tabIndex={0}
      onScroll={() => {
        state.tip.value = null;
      }}
    >
      <Lanes {...common} key="head" part="head" lanes={lanes.filter(ahead)} />
      {shifted.length ? <Lanes {...common} key={order} part="body" lanes={shifted} /> : null}
    </section>
  );
}

interface Props {
  state: State;
  modes: Modes | null;
  pyramid: Pyramid | null;
  cores: CoreRow[];
  lanes: Lane[];
  part: "head" | "body";
}

function Lanes({ state, modes, pyramid, cores, lanes, part }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const height = heightOf(lanes);
  const x = (time: number) => {
    const { start, end } = state.view.value;
    return ((time - start) / (end - start)) * width.value;
  };

  const gestures = useMemo(
    () =>
      gesturesOf(
        state,
        lanes,
        () => width.peek(),
        (lane, left, top, event) => {
          const told = lane && toldOf(state, modes, cores, lane, left, top, width.peek());
          state.tip.value = told ? { x: event.clientX, y: event.clientY, ...told } : null;
        },
      ),
    [],
  );

  function painted(lane: Lane) {
    return (context: CanvasRenderingContext2D, wide: number, tall: number) => {
      const view = state.view.value;
      const palette = state.palette.value;
      if (lane.kind === "overview") paintOverview(context, state.grid.value, state.whole, view, palette, wide, tall);
      else if (lane.kind === "axis") paintAxis(context, state.bundle, view, palette, wide, tall);
      else if (lane.kind === "heatmap") {
        paintHeatmap(context, state.bundle, state.grid.value, state.foundGrid.value, view, palette, wide, tall);
      } else if (lane.kind === "cores" && pyramid) paintStrip(context, pyramid, cores, view, palette, wide);
    };
  }

  /** All rows of events on one canvas: there are many small ones. */
  const rows = lanes.filter((it) => it.kind === "event");
  function paintRows(context: CanvasRenderingContext2D, wide: number): void {
    for (const lane of rows) {
      context.save();
      context.translate(0, lane.top - rows[0].top);
      paintEvents(context, lane, state.view.value, state.palette.value, wide, state.reading.value);
      context.restore();
    }
  }

  /** Ranges over every lane: in the heatmap cell by cell, elsewhere as bands. */
  function overlay(context: CanvasRenderingContext2D, wide: number): void {
    const palette = state.palette.value;
    const view = state.view.value;
    const level = levelOf(view, wide, state.bundle.header.cell);
    const both: [Range | null, string, string, number[]][] = [
      [state.baseline.value, palette.baseline, palette.baselineWash, [4, 3]],
      [state.chosen.value, palette.chosen, palette.chosenWash, []],
      [state.zooming.value, palette.soft, palette.wash, [1, 2]],
    ];
    for (const [range, line, wash, dashes] of both) {
      if (!range || (range.start <= state.whole.start && range.end >= state.whole.end)) continue;
      context.strokeStyle = line;
      context.fillStyle = wash;
      context.setLineDash(dashes);
      for (const lane of lanes) {
        if (lane.kind === "axis") {
          context.fillRect(x(range.start), lane.top, Math.max(x(range.end) - x(range.start), 2), lane.height);
        } else if (lane.kind === "overview") {
          const scale = wide / (state.whole.end - state.whole.start);
          context.fillRect(range.start * scale, lane.top, Math.max((range.end - range.start) * scale, 2), lane.height);
        } else if (lane.kind === "heatmap") {
          for (const [left, top, across, down] of boxesOf(level, range, view, wide, lane.height)) {
            // Fainter than elsewhere, so that the heatmap's colours stay readable.
            context.globalAlpha = 0.4;
            context.fillRect(left, lane.top + top, across, down);
            context.globalAlpha = 1;
            context.strokeRect(left + 0.5, lane.top + top + 0.5, Math.max(across - 1, 1), Math.max(down - 1, 1));
          }
        } else {
          const left = x(range.start);
          const across = Math.max(x(range.end) - left, 1.5);
          context.fillRect(left, lane.top, across, lane.height);
        }
      }
    }
    context.setLineDash([]);
    context.fillStyle = palette.event;
    context.globalAlpha = 0.45;
    for (const it of part === "body" ? state.bundle.header.events : []) {
      if (it.lane === "finding") continue;
      context.fillStyle = it.lane === "fix" ? palette.baseline : palette.event;
      context.fillRect(Math.round(x(it.start * SECOND)), 0, 1, height);
    }
    context.globalAlpha = 1;
  }

  return (
    <div class={`part ${part}`}>
      <div class="gutter" style={{ height: `${height}px` }}>
        {lanes.map((lane) => (
          <Label key={lane.top} state={state} lane={lane} modes={modes} cores={cores} width={width.value} />
        ))}
      </div>
      <div class="lanes" ref={place} style={{ height: `${height}px` }}>
        {lanes.map((lane) =>
          lane.kind === "series"
            ? width.value > 0 && <SeriesView key={lane.top} state={state} lane={lane} width={width.value} />
            : lane.kind !== "event" && (
                <Canvas
                  key={lane.top}
                  name={lane.kind}
                  top={lane.top}
                  width={width.value}
                  height={lane.height}
                  paint={painted(lane)}
                />
              ),
        )}
        {rows.length ? (
          <Canvas
            name="events"
            top={rows[0].top}
            width={width.value}
            height={heightOf(rows) - rows[0].top}
            paint={paintRows}
          />
        ) : null}
        <Canvas name="overlay" width={width.value} height={height} paint={overlay} />
        <Cursor state={state} width={width.value} />
        <div class={`surface${state.comparing.value ? " comparing" : ""}`} {...gestures} />
      </div>
    </div>
  );
}

function Cursor({ state, width }: { state: State; width: number }) {
  const time = state.cursor.value;
  const { start, end } = state.view.value;
  if (time === null) return null;
  return <div class="cursor" style={{ transform: `translateX(${((time - start) / (end - start)) * width}px)` }} />;
}

/** The label left of a lane; for a curve also its maximum in view. */
function Label({ state, lane, modes, cores, width }: Pick<Props, "state" | "modes" | "cores"> & { lane: Lane; width: number }) {
  let more = lane.more;
  const named = lane.kind === "cores" && cores.some((it) => it.title);
  if (lane.kind === "series") {
    const { unit, cell } = state.bundle.header.series[lane.index];
    const [, values] = pooled(state.bundle.series[lane.index], cell, state.view.value, 500);
    more = `up to ${measured(Math.max(0, ...values.map((it) => it ?? 0)), unit)}`;
  } else if (lane.kind === "cores" && modes) {
    more = `${modes.cpus.length} · ${lane.more}`;
  } else if (lane.kind === "heatmap" && width) {
    const { column, rows } = levelOf(state.view.value, width, state.bundle.header.cell);
    more = `column ${lasting(column)}, row ${lasting(column / rows)}`;
  }
  return (
    <div
      class={`label of-${lane.kind}`}
      title={lane.more || lane.title}
      style={{ top: `${lane.top}px`, height: `${lane.height}px` }}
    >
      {named ? <CoreNames cores={cores} /> : <b>{lane.title}</b>}
      {more && lane.kind !== "event" && !named ? <span>{more}</span> : null}
      {lane.kind === "heatmap" && width ? <Scale state={state} width={width} /> : null}
    </div>
  );
}

function CoreNames({ cores }: { cores: CoreRow[] }) {
  return (
    <>
      {cores
        .filter((it) => it.title)
        .map((it) => (
          <span key={it.core} class="core" style={{ top: `${it.top}px`, height: `${it.height}px` }}>
            {it.title}
          </span>
        ))}
    </>
  );
}

/** What the heatmap's colours mean. */
function Scale({ state, width }: { state: State; width: number }) {
  const { bundle } = state;
  const level = levelOf(state.view.value, width, bundle.header.cell);
  const most = scaleOf(state.grid.value, level, bundle.header.cell);
  const each = (secondsEach(bundle) * SECOND) / bundle.header.cell;
  return (
    <span class="scale" title="how much was busy in a cell">
      0 <i /> {each ? `${short(most * each)} cores busy` : `${short(most)} samples in 20 ms`}
    </span>
  );
}
