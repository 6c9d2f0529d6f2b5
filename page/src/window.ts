// `window.zombiescope`: the same answers for a script, and for our own tests.
import { flameOf, gridOf, ownOf } from "./samples";
import type { Filter, Range } from "./samples";
import { EVERYBODY } from "./samples";
import { sandwichOf } from "./sandwich";
import type { Side } from "./sandwich";
import { matching } from "./search";
import type { State } from "./state";

declare global {
  interface Window {
    zombiescope?: ReturnType<typeof api>;
  }
}

function api(state: State, painted: number) {
  const { bundle } = state;
  return {
    painted, // milliseconds from the data to the first picture
    state,
    /** Own and total of each node of the tree, in its order. */
    flame(range: Range | null, filter: Partial<Filter> = {}) {
      const flame = flameOf(bundle.tree, ownOf(bundle, range, { ...EVERYBODY, ...filter }));
      return { own: Array.from(flame.own), total: Array.from(flame.total) };
    },
    /** Busy weight in each cell of 20 ms. */
    heat(filter: Partial<Filter> = {}) {
      const { sums, cells } = gridOf(bundle, { ...EVERYBODY, ...filter }, null);
      return Array.from({ length: cells }, (_, i) => sums[i + 1] - sums[i]);
    },
    /** Of a function its total, and that of those that call it and of those it calls. */
    around(name: string) {
      const { names } = bundle.tree;
      const { callers, callees } = sandwichOf(bundle.tree, state.now.value, names.indexOf(name, 1));
      const children = ({ tree, flame }: Side) => {
        const found: Record<string, number> = {};
        for (let i = 1; i < tree.label.length; i = tree.after[i]) found[names[tree.label[i]]] = flame.total[i];
        return found;
      };
      return { total: callees.flame.all, callers: children(callers), callees: children(callees) };
    },
    matching,
  };
}

export function expose(state: State, painted: number): void {
  window.zombiescope = api(state, painted);
  document.documentElement.dataset.ready = "yes";
}
