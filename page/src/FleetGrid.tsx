// All nodes at a glance: a cell each, coloured by harm. It answers the pointer and the arrow keys.
import { useComputed, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Canvas } from "./Canvas";
import { HEAD, beside, boxOf, layoutOf, paintGrid, placeAt } from "./fleetCells";
import type { Layout } from "./fleetCells";
import type { FleetState } from "./fleetState";
import { many, nodeTold } from "./fleetTold";
import { percent } from "./format";
import { useWidth } from "./width";

export function FleetGrid({ state }: { state: FleetState }) {
  const { fleet } = state;
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const tall = useSignal(0);
  const scrolled = useSignal(0);
  const moved = useSignal(-1); // the place that the arrow keys have come to
  useLayoutEffect(() => {
    const measure = () => {
      tall.value = place.current!.clientHeight;
    };
    const observer = new ResizeObserver(measure);
    observer.observe(place.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  const inner = useComputed(() => Math.max(0, width.value - 14)); // beside a scroll bar
  const layout = useComputed(() => layoutOf(state.arranged.value, inner.value, tall.value));
  const { order } = state.arranged.value;
  const at = moved.value < order.length ? moved.value : -1; // fewer may fit since

  const pointed = (event: MouseEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return placeAt(layout.value, event.clientX - box.left, event.clientY - box.top);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !order.length) return;
    if (event.key === "Enter" && at >= 0) state.node.value = order[at];
    else if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
      moved.value = at < 0 ? 0 : beside(layout.value, at, event.key, order.length - 1);
      const { top } = boxOf(layout.value, moved.value);
      const view = place.current!;
      if (top < view.scrollTop + HEAD) view.scrollTop = top - HEAD;
      else if (top + layout.value.cell > view.scrollTop + view.clientHeight) view.scrollTop = top + layout.value.cell - view.clientHeight;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const opened = state.node.value === null ? -1 : order.indexOf(state.node.value);
  const told = at >= 0 ? nodeTold(fleet, order[at]) : null;
  return (
    <div
      class="grid-pane"
      ref={place}
      onScroll={(event) => {
        scrolled.value = event.currentTarget.scrollTop;
        state.tip.value = null;
      }}
    >
      <div
        class="node-grid"
        role="group"
        aria-roledescription="grid of nodes"
        aria-label={`${many(order.length, "node")}; arrow keys go from node to node, Enter opens one; t shows the same as a table`}
        tabIndex={0}
        style={{ height: `${Math.max(layout.value.height, 1)}px` }}
        onPointerMove={(event) => {
          const found = pointed(event);
          state.tip.value = found < 0 ? null : { x: event.clientX, y: event.clientY, ...nodeTold(fleet, order[found]) };
        }}
        onPointerLeave={() => {
          state.tip.value = null;
        }}
        onBlur={() => {
          moved.value = -1;
        }}
        onKeyDown={keys}
        onClick={(event) => {
          const found = pointed(event);
          if (found >= 0) state.node.value = order[found];
        }}
      >
        <Canvas
          name="nodes"
          width={width.value}
          height={tall.value}
          top={scrolled.value}
          paint={(context) => {
            const { width: wide, height: high } = context.canvas;
            const image = new ImageData(wide, high);
            const pixels = new Uint32Array(image.data.buffer);
            const dots = devicePixelRatio || 1;
            paintGrid(pixels, wide, high, dots, scrolled.value, layout.value, state.arranged.value, fleet, state.palette.value);
            context.putImageData(image, 0, 0);
          }}
        />
        {layout.value.blocks.map((it) =>
          it.title ? (
            <h3 key={it.title} style={{ top: `${it.top - HEAD}px` }}>
              {it.title}
              <span>
                {" "}
                {many(it.to - it.from, "node")}, {it.sick.toLocaleString("en")} sick ({percent(it.sick / (it.to - it.from))})
              </span>
            </h3>
          ) : null,
        )}
        {opened >= 0 ? <Ring place={opened} kind="open" layout={layout.value} /> : null}
        {at >= 0 ? <Ring place={at} kind="at" layout={layout.value} /> : null}
      </div>
      <p class="unseen" role="status">
        {told ? [told.title, ...told.lines, ...(at === opened ? ["open beside the grid"] : [])].join(", ") : ""}
      </p>
    </div>
  );
}

function Ring({ place, kind, layout }: { place: number; kind: string; layout: Layout }) {
  const { left, top } = boxOf(layout, place);
  const size = `${layout.cell}px`;
  return <i class={`ring ${kind}`} style={{ left: `${left}px`, top: `${top}px`, width: size, height: size }} />;
}
