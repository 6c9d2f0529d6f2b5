// The frame that fills the graph: its stack, to copy, and whom to ask about it.
import { pathTo } from "./flame";
import { copied } from "./save";
import type { State } from "./state";

export function FrameBar({ state }: { state: State }) {
  const { tree } = state.bundle;
  const node = state.focus.value;
  if (!node) return null;
  const names = pathTo(tree, node)
    .slice(1)
    .map((it) => tree.names[tree.label[it]]);
  const copy = (text: string, what: string) =>
    void copied(text).then((done) => {
      state.notice.value = done ? `the ${what} is on the clipboard` : "the browser does not let us copy";
    });
  return (
    <div class="frame-bar" role="group" aria-label="chosen frame">
      <b>{names[names.length - 1]}</b>
      <span class="buttons">
        <button onClick={() => copy(names[names.length - 1], "name")}>copy name</button>
        <button title="innermost function first, one a line" onClick={() => copy([...names].reverse().join("\n"), "stack")}>
          copy stack
        </button>
        <button
          onClick={() => {
            state.about.value = Number(tree.label[node]);
            state.pane.value = "callers";
          }}
        >
          callers and callees
        </button>
        <button
          onClick={() => {
            state.focus.value = 0;
          }}
        >
          show all frames
        </button>
      </span>
    </div>
  );
}
