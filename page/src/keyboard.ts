// Keyboard and mouse actions. `?` shows this list.
import { SECOND } from "./format";
import type { State } from "./state";

export const KEYS: [string, string][] = [
  ["drag", "show the flame graph of that time; in the heatmap, from cell to cell"],
  ["click", "show one column; on an event: the seconds before it, compared with quiet time"],
  ["Ctrl-drag", "choose a baseline: what grew since is red, what shrank is blue"],
  ["wheel", "zoom; with Shift, pan. On the axis: drag to zoom in, double-click to zoom out"],
  ["← →", "pan"],
  ["+ −", "zoom"],
  ["0", "show the whole time"],
  ["z", "zoom to the selection"],
  ["n p", "next, previous event in the kernel log (finding, if there is none)"],
  ["/", "search functions; matching time is highlighted everywhere"],
  ["i", "flame graph: root at the top, or at the bottom"],
  ["b", "in a difference: frame widths as now, or as in the baseline"],
  ["d", "light or dark theme"],
  ["Esc", "go back one step"],
];

export function listen(state: State, ends?: AbortSignal): void {
  const act = (event: KeyboardEvent) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape") {
      if (typing) (event.target as HTMLElement).blur();
      state.back();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = ACTIONS[event.key];
    if (!act) return;
    event.preventDefault();
    act(state);
  };
  addEventListener("keydown", act, ends ? { signal: ends } : {});
}

const ACTIONS: Record<string, (state: State) => void> = {
  "?": (state) => {
    state.helping.value = !state.helping.value;
  },
  ArrowLeft: (state) => state.pan(-0.15),
  ArrowRight: (state) => state.pan(0.15),
  ArrowUp: (state) => state.zoom(0.7, null),
  ArrowDown: (state) => state.zoom(1 / 0.7, null),
  "+": (state) => state.zoom(0.7, state.cursor.value),
  "=": (state) => state.zoom(0.7, state.cursor.value),
  "-": (state) => state.zoom(1 / 0.7, state.cursor.value),
  "0": (state) => state.show(state.whole),
  z: (state) => {
    if (state.chosen.value) state.show(state.chosen.value);
  },
  n: (state) => step(state, 1),
  p: (state) => step(state, -1),
  "/": () => document.getElementById("search")?.focus(),
  i: (state) => {
    state.upright.value = !state.upright.value;
  },
  b: (state) => {
    state.byBaseline.value = !state.byBaseline.value;
  },
  d: (state) => {
    state.theme.value = state.theme.value === "dark" ? "light" : "dark";
  },
};

function step(state: State, by: 1 | -1): void {
  const every = state.bundle.header.events;
  const logged = every.filter((it) => it.lane === "log");
  const events = logged.length ? logged : every;
  const now = state.chosen.value ? state.chosen.value.end / SECOND : by > 0 ? -1 : Infinity;
  const next =
    by > 0 ? events.find((it) => it.start > now + 1e-6) : [...events].reverse().find((it) => it.start < now - 1e-6);
  if (next) state.beforeEvent(next);
}
