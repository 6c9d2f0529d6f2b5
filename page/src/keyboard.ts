// Keyboard and mouse actions. `?` shows this list.
import { SECOND } from "./format";
import type { State } from "./state";

export const KEYS: [string, string][] = [
  ["drag", "show the flame graph of that time; in the heatmap, from cell to cell"],
  ["click", "show one column; on an event: the seconds before it, compared with quiet time"],
  ["Ctrl-drag", "choose a baseline (Cmd on a Mac; or Compare, then drag): what grew since is red, what shrank is blue"],
  ["wheel", "scroll; with Ctrl or Cmd zoom, with Shift pan. On the axis: drag to zoom in, double-click to zoom out"],
  ["s", "select what is in view; as the baseline after c"],
  ["c", "compare: the next selection is the baseline"],
  ["← →", "pan"],
  ["+ −", "zoom"],
  ["0", "show the whole time"],
  ["z", "zoom to the selection"],
  ["n p", "next, previous event in the kernel log (finding, if there is none)"],
  ["/", "search functions; matching time is highlighted everywhere"],
  ["t", "everything as tables"],
  ["u", "callers and callees of a function"],
  ["i", "flame graph: root at the top, or at the bottom"],
  ["b", "in a difference: frame widths as now, or as in the baseline"],
  ["d", "light or dark theme"],
  ["Esc", "go back one step"],
];

export function listen(state: State, ends?: AbortSignal): void {
  const hide = () => {
    state.tip.value = null;
  };
  // A text under the pointer goes when what it was about moves away from there, or the person does.
  for (const name of ["keydown", "wheel", "blur", "resize"]) addEventListener(name, hide, { passive: true, ...(ends && { signal: ends }) });
  document.addEventListener("pointerleave", hide, ends ? { signal: ends } : {});
  const act = (event: KeyboardEvent) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape") {
      if (typing) (event.target as HTMLElement).blur();
      state.back();
      return;
    }
    const scrolls = event.key.startsWith("Arrow") && event.target instanceof Element && event.target.closest(".case, .words, .tables");
    if (scrolls || typing || event.ctrlKey || event.metaKey || event.altKey) return;
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
  s: (state) => {
    const baseline = state.comparing.value;
    state.comparing.value = false;
    if (baseline) state.compare(state.view.value);
    else state.choose(state.view.value);
  },
  c: (state) => {
    state.comparing.value = !state.comparing.value;
  },
  t: (state) => {
    state.pane.value = state.pane.value === "tables" ? "flame" : "tables";
  },
  u: (state) => {
    state.pane.value = state.pane.value === "callers" ? "flame" : "callers";
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
