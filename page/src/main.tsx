// The time-travel page: load the data, then compute everything here. An agent's page loads the last minutes anew.
import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { CasePanel } from "./CasePanel";
import { decode } from "./data";
import { FlameView } from "./FlameView";
import { Help } from "./Help";
import { link, written } from "./hash";
import { KEYS, listen } from "./keyboard";
import { busy, carry, following, liveOf, status } from "./live";
import type { Live } from "./live";
import { LiveBar } from "./LiveBar";
import { Legend } from "./Legend";
import { load } from "./load";
import { stateOf } from "./state";
import type { State } from "./state";
import { modesOf } from "./strip";
import { TimeView } from "./TimeView";
import { Tip } from "./Tip";
import { Toolbar } from "./Toolbar";
import { expose } from "./window";

function Page({ state, live }: { state: State; live: Live | null }) {
  const { header } = state.bundle;
  const modes = modesOf(state.bundle);
  return (
    <>
      <Toolbar state={state} />
      {live ? <LiveBar state={state} live={live} /> : null}
      {header.notes.length ? (
        <ul class="notes">
          {header.notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      ) : null}
      <div class={`sheet${header.case ? " with-case" : ""}`}>
        <main>
          {header.length ? <TimeView state={state} modes={modes} /> : null}
          <Legend state={state} modes={header.length ? modes : null} />
          <FlameView state={state} />
        </main>
        <CasePanel state={state} />
      </div>
      <Tip state={state} />
      <Help state={state} keys={KEYS} />
    </>
  );
}

const place = document.getElementById("page")!;
let shown: { state: State; ends: AbortController } | null = null;
let times = 0;

/** Show a bundle, in place of the one before it. */
function show(buffer: ArrayBuffer, live: Live | null): void {
  const began = performance.now();
  const state = stateOf(decode(buffer));
  const ends = new AbortController();
  if (shown) {
    // The address follows a little later than the state: what was set just now is not lost.
    history.replaceState(null, "", written(shown.state) || location.pathname + location.search);
    shown.ends.abort();
    carry(shown.state, state);
  }
  shown = { state, ends };
  link(state, ends.signal);
  listen(state, ends.signal);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const themed = (it: MediaQueryListEvent) => {
    state.theme.value = it.matches ? "dark" : "light";
  };
  dark.addEventListener("change", themed, { signal: ends.signal });
  const stop = effect(() => {
    document.documentElement.dataset.theme = state.theme.value;
  });
  ends.signal.addEventListener("abort", stop);
  if (!times) place.textContent = "";
  render(<Page key={++times} state={state} live={live} />, place);
  // Two frames later the first picture is on the screen.
  requestAnimationFrame(() => requestAnimationFrame(() => expose(state, performance.now() - began)));
}

/** The last minutes again, unless somebody is at work on what is shown. */
async function follow(live: Live): Promise<void> {
  if (document.hidden || !following.value || !shown) return;
  if (busy(shown.state)) {
    status.value = "waits: a range, a frame or a search is in use";
    return;
  }
  try {
    const buffer = await load(live);
    if (busy(shown.state)) return;
    show(buffer, live);
    status.value = `updated ${new Date().toISOString().slice(11, 19)} UTC`;
  } catch (error) {
    status.value = `not updated: ${error instanceof Error ? error.message : String(error)}`;
  }
}

async function start(): Promise<void> {
  try {
    const live = liveOf();
    show(await load(live), live);
    if (live?.follows) setInterval(() => void follow(live), live.every * 1000);
  } catch (error) {
    place.textContent = `The page could not be shown: ${error instanceof Error ? error.message : String(error)}`;
    place.className = "broken";
  }
}

void start();
