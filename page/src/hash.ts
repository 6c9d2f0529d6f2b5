// Deep links: the view, in the address. Times are seconds of the source's own clock, so a link stays valid when the same
// recording, or only a part of it, is opened again.
import { batch, effect } from "@preact/signals";
import { EVERYBODY } from "./samples";
import type { Range } from "./samples";
import type { State } from "./state";

/** What only this tab knows of a step in its history: a frame has no name that another recording would know. */
interface Kept {
  focus?: number;
}

/** Where in the history we are: what a link says, and the frame that is in focus. */
interface Place {
  address: string;
  focus: number;
}
const ONE_STEP = 1000; // ms between changes of the same thing, as of a search that is being typed: they are one step
const REST = 200; // ms: browsers refuse more than about a hundred changes of the address in half a minute

/** Every change is a step that Back goes back through, at once, however busy the page is. Panning and zooming are none:
 * they would bury those that are, and change the address of the step before, a little later. */
export function link(state: State, ends?: AbortSignal): void {
  restore(state, location.hash);
  let kept = placeOf(state);
  let last = ""; // what the last step changed
  let at = 0;
  let waiting = 0; // for `kept` to be written
  const write = (how: "pushState" | "replaceState") => {
    clearTimeout(waiting);
    waiting = 0;
    const mark: Kept = kept.focus ? { focus: kept.focus } : {};
    history[how](mark, "", kept.address || location.pathname + location.search);
  };
  const note = () => {
    if (ends?.aborted || state.dragging.value) return; // when it ends
    const place = placeOf(state);
    const what = steps(kept, place);
    if (!what && place.address === kept.address) return;
    const goesOn = !what || (what === last && performance.now() - at < ONE_STEP);
    if (what) {
      last = what;
      at = performance.now();
    }
    if (goesOn) {
      kept = place;
      clearTimeout(waiting);
      waiting = window.setTimeout(() => write("replaceState"), REST);
    } else {
      if (waiting) write("replaceState");
      kept = place;
      write("pushState");
    }
  };
  const moved = () => {
    clearTimeout(waiting);
    waiting = 0;
    const { focus } = (history.state as Kept | null) ?? {};
    batch(() => {
      restore(state, location.hash);
      state.focus.value = focus !== undefined && focus < state.bundle.tree.label.length ? focus : 0;
    });
    kept = placeOf(state);
    last = "";
  };
  addEventListener("popstate", moved, ends ? { signal: ends } : {});
  const stop = effect(() => {
    placeOf(state); // what this follows
    if (!state.dragging.value) queueMicrotask(note); // all that one event changes is one step
  });
  ends?.addEventListener("abort", () => {
    stop();
    clearTimeout(waiting);
  });
}

function placeOf(state: State): Place {
  return { address: written(state), focus: state.focus.value };
}

/** Which of the things that are steps differ between two places: all but which part of the time is in view. */
function steps(one: Place, other: Place): string {
  const [before, after] = [one, other].map((it) => new URLSearchParams(it.address.replace(/^#/, "")));
  const names = [...new Set([...before.keys(), ...after.keys()])].sort();
  const changed = names.filter((it) => it !== "view" && before.get(it) !== after.get(it));
  return [...changed, ...(one.focus === other.focus ? [] : ["focus"])].join();
}

export function written(state: State): string {
  const parts = new URLSearchParams();
  const { cpu, pid, comm, cgroup } = state.filter.value;
  const range = (name: string, it: Range | null) => {
    if (it) parts.set(name, `${seconds(state, it.start)}-${seconds(state, it.end)}`);
  };
  if (state.view.value !== state.whole) range("view", state.view.value);
  range("range", state.chosen.value);
  range("baseline", state.baseline.value);
  if (state.search.value) parts.set("search", state.search.value);
  if (state.pane.value !== "flame") parts.set("pane", state.pane.value);
  if (state.about.value !== null && state.pane.value === "callers")
    parts.set("function", state.bundle.tree.names[state.about.value]);
  if (cpu !== null) parts.set("core", String(cpu));
  if (pid !== null) parts.set("pid", String(pid));
  if (comm !== null) parts.set("comm", comm);
  if (cgroup !== null) parts.set("cgroup", cgroup);
  const text = parts.toString();
  return text && `#${text}`;
}

export function restore(state: State, hash: string): void {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const range = (name: string): Range | null => {
    const found = /^(\d+)(?:\.(\d+))?-(\d+)(?:\.(\d+))?$/.exec(parts.get(name) ?? "");
    return found && { start: onAxis(state, found[1], found[2]), end: onAxis(state, found[3], found[4]) };
  };
  const number = (name: string) => (/^\d+$/.test(parts.get(name) ?? "") ? Number(parts.get(name)) : null);
  const view = range("view");
  const chosen = range("range");
  const baseline = range("baseline");
  const filter = { cpu: number("core"), pid: number("pid"), comm: parts.get("comm"), cgroup: parts.get("cgroup") };
  state.filter.value = Object.values(filter).every((it) => it === null) ? EVERYBODY : filter;
  state.search.value = parts.get("search") ?? "";
  state.choose(chosen);
  state.compare(baseline);
  const pane = parts.get("pane");
  state.pane.value = pane === "callers" || pane === "tables" ? pane : "flame";
  const named = parts.get("function");
  const label = named === null ? -1 : state.bundle.tree.names.indexOf(named, 1);
  state.about.value = label > 0 ? label : null;
  if (view) state.show(view);
  else state.view.value = state.whole;
}

function origin(state: State): bigint {
  return BigInt(state.bundle.header.origin);
}

function seconds(state: State, time: number): string {
  const whole = origin(state) + BigInt(Math.round(time));
  const rest = String(whole % 1_000_000_000n)
    .padStart(9, "0")
    .replace(/0+$/, "");
  return `${whole / 1_000_000_000n}${rest && "."}${rest}`;
}

function onAxis(state: State, whole: string, rest = ""): number {
  return Number(BigInt(whole.slice(0, 12)) * 1_000_000_000n + BigInt(rest.slice(0, 9).padEnd(9, "0")) - origin(state));
}
