// Deep links: the view, in the address. Times are seconds of the source's own clock, so a link stays valid when the same
// recording, or only a part of it, is opened again.
import { effect } from "@preact/signals";
import { EVERYBODY } from "./samples";
import type { Range } from "./samples";
import type { State } from "./state";

/** What only this tab knows of a step in its history: a frame has no name that another recording would know. */
interface Kept {
  focus?: number;
}

export function link(state: State, ends?: AbortSignal): void {
  restore(state, location.hash);
  let last = "";
  let kept = step(state);
  let waiting = 0;
  const changed = () => {
    if (location.hash === last && (history.state as Kept | null)?.focus === (state.focus.value || undefined)) return;
    clearTimeout(waiting);
    restore(state, location.hash);
    const { focus } = (history.state as Kept | null) ?? {};
    state.focus.value = focus !== undefined && focus < state.bundle.tree.label.length ? focus : 0;
    last = written(state);
    kept = step(state); // this is where Back has come to, not a new step
  };
  addEventListener("popstate", changed, ends ? { signal: ends } : {});
  const stop = effect(() => {
    const next = written(state);
    const now = step(state);
    if (state.dragging.value) return; // when it ends
    clearTimeout(waiting);
    // Browsers refuse more than about a hundred changes of the address in half a minute.
    waiting = window.setTimeout(() => {
      last = next;
      const address = next || location.pathname + location.search;
      const mark: Kept = state.focus.value ? { focus: state.focus.value } : {};
      // Panning and zooming are no steps to go back to: they would bury those that are.
      if (now !== kept) history.pushState(mark, "", address);
      else history.replaceState(mark, "", address);
      kept = now;
    }, 200);
  });
  ends?.addEventListener("abort", () => {
    stop();
    clearTimeout(waiting);
  });
}

/** All that Back goes back through: everything but which part of the time is in view. */
function step(state: State): string {
  const parts = new URLSearchParams(written(state).replace(/^#/, ""));
  parts.delete("view");
  return `${parts.toString()} ${state.focus.value}`;
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
