// Keys of the fleet's page. `?` shows this list.
import { PANES } from "./fleetState";
import type { FleetState } from "./fleetState";

export const FLEET_KEYS: [string, string][] = [
  ["click", "open a node; on a root cause: show only nodes that have it"],
  ["← → ↑ ↓", "in the grid: go from node to node; Home and End: to the first and the last"],
  ["Enter", "open the node that the arrows have come to"],
  ["/", "filter by name, zone, image, label …"],
  ["t", "grid or table"],
  ["1 2 3 4", "nodes, what sick nodes have in common, over time, flame graph"],
  ["d", "light or dark theme"],
  ["Esc", "go back one step"],
];

export function listenToKeys(state: FleetState): void {
  const hide = () => {
    state.tip.value = null;
  };
  for (const name of ["keydown", "wheel", "blur", "resize"]) addEventListener(name, hide, { passive: true });
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === "Escape") {
      if (typing) (event.target as HTMLElement).blur();
      state.back();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const pane = PANES[Number(event.key) - 1];
    if (pane) state.pane.value = pane[0];
    else if (event.key === "t") state.asTable.value = !state.asTable.value;
    else if (event.key === "d") state.theme.value = state.theme.value === "dark" ? "light" : "dark";
    else if (event.key === "?") state.helping.value = !state.helping.value;
    else if (event.key === "/") {
      state.pane.value = "nodes";
      requestAnimationFrame(() => document.getElementById("search")?.focus());
    } else return;
    event.preventDefault();
  });
}
