// What can be done with the flame graph: compare, look at it in other ways, take it away.
import type { ReadonlySignal } from "@preact/signals";
import { pprofFile, speedscopeOf, svgOf } from "./exports";
import type { Drawing } from "./flame";
import { stretch } from "./format";
import { written } from "./hash";
import { quietTime } from "./quiet";
import { copied, download } from "./save";
import type { Pane, State } from "./state";

const PANES: Record<Pane, string> = { flame: "flame graph", callers: "callers and callees", tables: "tables" };

interface Props {
  state: State;
  drawing: ReadonlySignal<Drawing>;
  depth: () => number;
}

export function Actions({ state, drawing, depth }: Props) {
  const { bundle } = state;
  const range = state.chosen.value;
  const title = `${bundle.header.case?.node || bundle.header.label || "capture"} ${range ? stretch(bundle, range) : "everything"}`;
  const file = (ending: string) => `zombiescope ${title}.${ending}`;
  const timed = bundle.header.clock !== "none" && bundle.header.length > 0;
  return (
    <div class="buttons">
      <span class="group" role="group" aria-label="view">
        {Object.entries(PANES).map(([pane, words]) => (
          <button
            key={pane}
            aria-pressed={state.pane.value === pane}
            onClick={() => {
              state.pane.value = pane as Pane;
            }}
          >
            {words}
          </button>
        ))}
      </span>
      {timed ? (
        <button
          class="compare"
          aria-pressed={state.comparing.value}
          title="then drag over the time to compare with; or drag with Ctrl or Cmd"
          onClick={() => {
            state.comparing.value = !state.comparing.value;
          }}
        >
          Compare
        </button>
      ) : null}
      {timed && state.comparing.value && range ? (
        <button
          title="the nearest earlier time in which nothing happened"
          onClick={() => {
            const quiet = quietTime(bundle.header.events, state.whole, range.end, range.end - range.start);
            state.comparing.value = false;
            if (quiet) state.compare(quiet);
            else state.notice.value = "there is no quiet time in this recording";
          }}
        >
          with quiet time
        </button>
      ) : null}
      {state.then.value ? (
        <button
          aria-pressed={state.byBaseline.value}
          title="draw frames as wide as in the baseline (b)"
          onClick={() => {
            state.byBaseline.value = !state.byBaseline.value;
          }}
        >
          baseline widths
        </button>
      ) : null}
      {range ? <button onClick={() => state.show({ start: range.start - (range.end - range.start) * 0.1, end: range.end + (range.end - range.start) * 0.1 })}>zoom to selection</button> : null}
      {range || state.baseline.value ? <button onClick={() => state.choose(null)}>clear selection</button> : null}
      <span class="group save" role="group" aria-label="save or share">
        <button title="save the flame graph as a picture" onClick={() => download(svgOf(drawing.value, depth(), title), file("svg"))}>
          SVG
        </button>
        <button
          title="save the samples of this range for `go tool pprof`"
          onClick={() => void pprofFile(bundle, state.now.value).then((it) => download(it, file("pb.gz")))}
        >
          pprof
        </button>
        <button
          title="save the samples of this range for speedscope"
          onClick={() => download(speedscopeOf(bundle, state.now.value, title), file("speedscope.json"))}
        >
          speedscope
        </button>
        <button
          title="copy an address that brings back what is shown now"
          onClick={() =>
            void copied(new URL(written(state) || "#", location.href).href).then((done) => {
              state.notice.value = done ? "the link is on the clipboard" : "the browser does not let us copy: the address bar has the link";
            })
          }
        >
          link
        </button>
      </span>
    </div>
  );
}
