// What the fleet's page shows, as signals: what a person changes, and what follows from it.
import { computed, signal } from "@preact/signals";
import type { Fleet } from "./fleetData";
import { chosen, ordered, ranked, sorted } from "./fleetOrder";
import type { Tip } from "./state";
import { PALETTES, preferred } from "./theme";
import type { Theme } from "./theme";

export const PANES: [string, string][] = [
  ["nodes", "Nodes"],
  ["common", "In common"],
  ["time", "Over time"],
  ["flame", "Flame graph"],
];
export type FleetState = ReturnType<typeof fleetStateOf>;

export function fleetStateOf(fleet: Fleet) {
  const theme = signal<Theme>(preferred());
  const tip = signal<Tip | null>(null);
  const helping = signal(false);
  const pane = signal("nodes");
  const asTable = signal(false);
  const text = signal("");
  const root = signal(-1);
  const kind = signal("all");
  const group = signal("");
  const sort = signal("harm");
  const node = signal<number | null>(null); // whose details are shown
  const sick = signal(""); // the sign by which nodes are called sick when they are compared; "" is any harm
  const focus = signal(0); // the frame that fills the flame graph
  const names = computed(() => ranked(fleet.name));
  const all = computed(() => sorted(fleet, sort.value, names.value));
  const kept = computed(() => chosen(fleet, text.value, root.value, kind.value));
  const arranged = computed(() => ordered(fleet, all.value, kept.value, group.value));
  const palette = computed(() => PALETTES[theme.value]);

  /** One step back: help, the node, the frame, the filters, the groups. */
  function back(): void {
    if (helping.value) helping.value = false;
    else if (node.value !== null) node.value = null;
    else if (focus.value) focus.value = 0;
    else if (text.value || root.value !== -1 || kind.value !== "all") {
      text.value = "";
      root.value = -1;
      kind.value = "all";
    } else if (group.value) group.value = "";
    else pane.value = "nodes";
  }
  const state = { fleet, theme, tip, helping, pane, asTable, text, root, kind, group, sort, node, sick, focus };
  return { ...state, arranged, palette, back };
}
