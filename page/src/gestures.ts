// What the pointer does on everything under the time axis: hover, wheel, click, drag, Ctrl-drag.
import type { Happening } from "./data";
import { SECOND } from "./format";
import { cellAt, columnAt, levelOf } from "./heatmap";
import { eventAt } from "./events";
import { laneAt } from "./lanes";
import type { Lane } from "./lanes";
import type { Range } from "./samples";
import type { State } from "./state";
import { visit } from "./visit";

const MOVED = 4; // pixels: less is a click
const WHEEL = 0.0016; // of zoom for each unit that a wheel turns

interface Drag {
  lane: Lane;
  x: number;
  y: number;
  from: Range;
  view: Range;
  baseline: boolean;
  moved: boolean;
}

export interface Gestures {
  onPointerDown: (event: PointerEvent) => void;
  onPointerMove: (event: PointerEvent) => void;
  onPointerUp: (event: PointerEvent) => void;
  onPointerCancel: () => void;
  onPointerLeave: () => void;
  onWheel: (event: WheelEvent) => void;
  onDblClick: (event: MouseEvent) => void;
}

export function gesturesOf(
  state: State,
  lanes: Lane[],
  width: () => number,
  hover: (lane: Lane | null, x: number, y: number, event: PointerEvent) => void,
): Gestures {
  let drag: Drag | null = null;

  const level = (view: Range) => levelOf(view, width(), state.bundle.header.cell);
  const timeAt = (x: number, view: Range) => view.start + (x / width()) * (view.end - view.start);
  const placeOf = (event: MouseEvent): [number, number] => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  /** The time range under the pointer: a cell of the heatmap, elsewhere a single time. */
  const under = (lane: Lane, x: number, y: number, view: Range): Range => {
    if (lane.kind === "heatmap") return cellAt(level(view), view, x, y - lane.top, width(), lane.height);
    const time = timeAt(x, view);
    return { start: time, end: time };
  };
  const around = (one: Range, other: Range): Range => ({
    start: Math.min(one.start, other.start),
    end: Math.max(one.end, other.end),
  });

  function move(it: Drag, x: number, y: number): void {
    if (it.lane.kind === "overview") {
      const scale = (state.whole.end - state.whole.start) / width();
      const half = (it.view.end - it.view.start) / 2;
      state.show({ start: x * scale - half, end: x * scale + half });
      return;
    }
    const range = around(it.from, under(it.lane, x, y, it.view));
    if (it.lane.kind === "axis") state.zooming.value = range;
    else if (it.baseline) state.compare(range);
    else state.choose(range);
  }

  function click(it: Drag): void {
    const found: Happening | null = it.lane.kind === "event" ? eventAt(it.lane, it.view, width(), it.x) : null;
    if (found) {
      if (found.finding !== undefined) visit(state, found.finding);
      else state.beforeEvent(found);
    } else if (it.lane.kind === "heatmap") {
      const column = columnAt(level(it.view), it.view, it.x, width());
      if (it.baseline) state.compare(column);
      else state.choose(column);
    } else if (it.lane.kind === "cores" || it.lane.kind === "series") {
      const time = timeAt(it.x, it.view);
      const second = { start: Math.floor(time / SECOND) * SECOND, end: Math.floor(time / SECOND + 1) * SECOND };
      if (it.baseline) state.compare(second);
      else state.choose(second);
    }
  }

  return {
    onPointerDown(event) {
      if (event.button !== 0) return;
      const [x, y] = placeOf(event);
      const lane = laneAt(lanes, y);
      if (!lane) return;
      event.preventDefault();
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      const view = state.view.value;
      const baseline = event.ctrlKey || event.metaKey || state.comparing.value;
      drag = { lane, x, y, from: under(lane, x, y, view), view, baseline, moved: false };
      state.tip.value = null;
      if (lane.kind === "overview") move(drag, x, y);
    },
    onPointerMove(event) {
      const [x, y] = placeOf(event);
      state.cursor.value = timeAt(x, state.view.value);
      if (!drag) {
        hover(laneAt(lanes, y), x, y, event);
        return;
      }
      if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < MOVED) return;
      drag.moved = state.dragging.value = true;
      move(
        drag,
        Math.min(Math.max(x, 0), width()),
        Math.min(Math.max(y, drag.lane.top), drag.lane.top + drag.lane.height - 1),
      );
    },
    onPointerUp() {
      if (drag && !drag.moved) click(drag);
      else if (state.zooming.value) state.show(state.zooming.value);
      if (drag?.baseline && state.baseline.value) state.comparing.value = false;
      state.zooming.value = drag = null;
      state.dragging.value = false;
    },
    onPointerCancel() {
      state.zooming.value = drag = null;
      state.dragging.value = false;
    },
    onPointerLeave() {
      state.cursor.value = null;
      state.tip.value = null;
    },
    onWheel(event) {
      // As everywhere the wheel scrolls; with Ctrl or Cmd (a pinch on a touchpad is that too) it zooms, sideways or with Shift it pans.
      const [x] = placeOf(event);
      const sideways = event.shiftKey ? event.deltaX || event.deltaY : event.deltaX;
      state.tip.value = null;
      if (event.ctrlKey || event.metaKey) state.zoom(Math.exp(event.deltaY * WHEEL), timeAt(x, state.view.value));
      else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) state.pan(sideways / width());
      else return;
      event.preventDefault();
    },
    onDblClick(event) {
      const lane = laneAt(lanes, placeOf(event)[1]);
      if (lane?.kind === "axis" || lane?.kind === "overview") state.show(state.whole);
    },
  };
}
