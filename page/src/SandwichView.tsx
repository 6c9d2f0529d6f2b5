// Callers above, callees below: all that leads to one function, and all that it does.
import { useComputed } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Drawing } from "./flame";
import { amount, percent } from "./format";
import { FrameCanvas } from "./FrameCanvas";
import { sandwichOf } from "./sandwich";
import type { Side } from "./sandwich";
import { PROCESS } from "./data";
import type { State } from "./state";
import { useWidth } from "./width";

export function SandwichView({ state }: { state: State }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const { tree } = state.bundle;
  const label = useComputed(() => state.about.value ?? heaviest(state));
  const both = useComputed(() => sandwichOf(tree, state.now.value, label.value));
  const of = (side: Side, upright: boolean): Drawing => ({
    ...side,
    difference: null,
    labels: state.labels.value,
    focus: 0,
    upright,
    palette: state.palette.value,
    width: width.value,
  });
  const callers = useComputed(() => of(both.value.callers, true));
  const callees = useComputed(() => of(both.value.callees, false));
  const graph = (which: "callers" | "callees", drawing: ReadonlySignal<Drawing>) => (
    <FrameCanvas
      key={which}
      state={state}
      drawing={drawing}
      name={which}
      label={`${which} of ${tree.names[label.value]}`}
      tell={tell(both.value[which])}
      act={act(both.value[which])}
    />
  );
  const tell = (side: Side) => (node: number) => ({
    title: tree.names[side.tree.label[node]],
    lines: [`${amount(state.bundle, side.flame.total[node])} (${percent(side.flame.total[node] / (state.now.value.all || 1))} of all)`],
  });
  const act = (side: Side) => (node: number) => {
    state.about.value = side.tree.label[node];
  };
  const name = tree.names[label.value];
  const { all } = both.value.callees.flame;
  return (
    <div class="graph sandwich" ref={place}>
      <h3>
        Callers of <b>{name}</b>
      </h3>
      {all && width.value ? (
        <>
          {graph("callers", callers)}
          <h3>
            What <b>{name}</b> does: {amount(state.bundle, all)}, {percent(all / (state.now.value.all || 1))} of all
          </h3>
          {graph("callees", callees)}
        </>
      ) : (
        <p class="nothing">no samples of it in this time range</p>
      )}
    </div>
  );
}

/** The function with most self time: what there is to ask about before anybody has chosen one. */
function heaviest(state: State): number {
  const { tree } = state.bundle;
  const { own } = state.now.value;
  const sums = new Float64Array(tree.names.length);
  for (let i = 1; i < own.length; i++) if (tree.kinds[tree.label[i]] !== PROCESS) sums[tree.label[i]] += own[i];
  return sums.reduce((best, it, i) => (it > sums[best] ? i : best), 0);
}
