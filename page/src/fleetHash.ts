// Deep links: what is shown, in the address. A link made by somebody else can choose no more than a person can.
import { effect } from "@preact/signals";
import { KINDS, groupings, sorts } from "./fleetOrder";
import { PANES } from "./fleetState";
import type { FleetState } from "./fleetState";

const LONGEST = 200; // characters of a filter

export function linkFleet(state: FleetState): void {
  restore(state);
  addEventListener("hashchange", () => {
    if (location.hash !== written(state)) restore(state);
  });
  let waiting = 0;
  effect(() => {
    const next = written(state);
    clearTimeout(waiting);
    // Browsers refuse more than about a hundred changes of the address in half a minute.
    waiting = window.setTimeout(() => history.replaceState(null, "", next || location.pathname + location.search), 200);
  });
}

function written(state: FleetState): string {
  const parts = new URLSearchParams();
  const put = (name: string, value: string, usual: string) => {
    if (value !== usual) parts.set(name, value);
  };
  const { fleet } = state;
  const root = fleet.roots[state.root.value];
  put("pane", state.pane.value, "nodes");
  put("table", state.asTable.value ? "yes" : "", "");
  put("text", state.text.value, "");
  put("root", root ? `${root.sign} ${root.subject}` : state.root.value === -2 ? "none" : "", "");
  put("show", state.kind.value, "all");
  put("group", state.group.value, "");
  put("sort", state.sort.value, "harm");
  put("sick", state.sick.value, "");
  put("node", state.node.value === null ? "" : fleet.id[state.node.value], "");
  const text = parts.toString();
  return text && `#${text}`;
}

function restore(state: FleetState): void {
  const { fleet } = state;
  const parts = new URLSearchParams(location.hash.replace(/^#/, ""));
  const among = (name: string, known: [string, string][], usual: string) => {
    const value = parts.get(name);
    return value !== null && known.some(([key]) => key === value) ? value : usual;
  };
  state.pane.value = among("pane", PANES, "nodes");
  state.asTable.value = parts.get("table") === "yes";
  state.text.value = (parts.get("text") ?? "").slice(0, LONGEST);
  const root = parts.get("root");
  state.root.value = root === "none" ? -2 : fleet.roots.findIndex((it) => `${it.sign} ${it.subject}` === root);
  state.kind.value = among("show", KINDS, "all");
  state.group.value = among("group", groupings(fleet), "");
  state.sort.value = among("sort", sorts(fleet), "harm");
  state.sick.value = among("sick", fleet.header.signs.map((it): [string, string] => [it.sign, ""]), "");
  const node = parts.get("node");
  const place = node ? fleet.id.indexOf(node) : -1;
  state.node.value = place < 0 ? null : place;
}
