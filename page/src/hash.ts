// Deep links: the view, in the address. Times are seconds of the source's own clock, so a link stays valid when the same
// recording, or only a part of it, is opened again.
import { effect } from "@preact/signals";
import { EVERYBODY } from "./samples";
import type { Range } from "./samples";
import type { State } from "./state";

export function link(state: State, ends?: AbortSignal): void {
  restore(state, location.hash);
  const changed = () => {
    if (location.hash !== last) restore(state, location.hash);
  };
  addEventListener("hashchange", changed, ends ? { signal: ends } : {});
  let last = "";
  let waiting = 0;
  const stop = effect(() => {
    const next = written(state);
    clearTimeout(waiting);
    // Browsers refuse more than about a hundred changes of the address in half a minute.
    waiting = window.setTimeout(() => {
      last = next;
      history.replaceState(null, "", next || location.pathname + location.search);
    }, 200);
  });
  ends?.addEventListener("abort", () => {
    stop();
    clearTimeout(waiting);
  });
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
  if (view) state.show(view);
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
