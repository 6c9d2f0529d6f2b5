// One curve under the time axis, drawn by uPlot; a pixel that stands for many values shows the highest.
import { effect } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { SECOND } from "./format";
import type { Lane } from "./lanes";
import type { Range } from "./samples";
import type { State } from "./state";

const APART = 3; // pixels between two values: closer ones blur and are slow to draw

/** Times in seconds and values, as many as the width can show. */
export function pooled(values: Float32Array, cell: number, view: Range, width: number): [number[], (number | null)[]] {
  const times: number[] = [];
  const found: (number | null)[] = [];
  const first = Math.max(0, Math.floor(view.start / cell) - 1);
  const last = Math.min(values.length, Math.ceil(view.end / cell) + 1);
  const step = Math.max(1, Math.ceil(((last - first) * APART) / Math.max(width, 1)));
  for (let i = first - (first % step); i < last; i += step) {
    let most = NaN;
    for (let j = i; j < Math.min(i + step, last); j++)
      if (!Number.isNaN(values[j]) && !(values[j] <= most)) most = values[j];
    times.push((i * cell) / SECOND);
    found.push(Number.isNaN(most) ? null : most);
  }
  return [times, found];
}

/** The value that held at a time. */
export function valueAt(values: Float32Array, cell: number, time: number): number {
  return values[Math.min(values.length - 1, Math.max(0, Math.floor(time / cell)))] ?? NaN;
}

export function SeriesView({ state, lane, width }: { state: State; lane: Lane; width: number }) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const wide = useRef(width);
  const { cell } = state.bundle.header.series[lane.index];
  const values = state.bundle.series[lane.index];
  wide.current = width;

  function draw(): void {
    const view = state.view.value;
    const drawn = plot.current!;
    void state.palette.value; // subscribe: the colours are read later, while drawing
    drawn.batch(() => {
      if (drawn.width !== wide.current) drawn.setSize({ width: wide.current, height: lane.height });
      drawn.setData(pooled(values, cell, view, wide.current), false);
      drawn.setScale("x", { min: view.start / SECOND, max: view.end / SECOND });
    });
  }
  useLayoutEffect(() => {
    plot.current = new uPlot(
      {
        width,
        height: lane.height,
        padding: [2, 0, 0, 0],
        pxAlign: false,
        cursor: { show: false },
        legend: { show: false },
        axes: [{ show: false }, { show: false }],
        scales: { x: { time: false, auto: false }, y: { range: (_, _low, high) => [0, high > 0 ? high : 1] } },
        series: [
          {},
          {
            stroke: () => state.palette.value.line,
            fill: () => state.palette.value.wash,
            width: 1.25,
            points: { show: false },
            paths: uPlot.paths.stepped!({ align: 1 }),
          },
        ],
      },
      [[], []],
      place.current!,
    );
    const end = effect(draw);
    return () => {
      end();
      plot.current?.destroy();
    };
  }, []);
  useLayoutEffect(draw, [width]);
  return <div ref={place} class="series" style={{ top: `${lane.top}px`, height: `${lane.height}px` }} />;
}
