// The time-travel page: load the data once, then compute everything here.
import { effect } from "@preact/signals";
import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { CasePanel } from "./CasePanel";
import { decode } from "./data";
import { FlameView } from "./FlameView";
import { link } from "./hash";
import { KEYS, listen } from "./keyboard";
import { load } from "./load";
import { stateOf } from "./state";
import type { State } from "./state";
import { modesOf } from "./strip";
import { TimeView } from "./TimeView";
import { Toolbar } from "./Toolbar";
import { expose } from "./window";

function Page({ state }: { state: State }) {
  const { header } = state.bundle;
  const modes = modesOf(state.bundle);
  return (
    <>
      <Toolbar state={state} />
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
          {modes && header.length ? <Legend sampled={modes.sampled} /> : null}
          <FlameView state={state} />
        </main>
        <CasePanel state={state} />
      </div>
      <Tip state={state} />
      {state.helping.value ? <Help state={state} /> : null}
    </>
  );
}

function Legend({ sampled }: { sampled: boolean }) {
  const modes = ["user", "system", "interrupts", "softirq", "steal"].slice(0, sampled ? 2 : 5); // samples show only two
  return (
    <p class="legend">
      {modes.map((mode) => (
        <span key={mode}>
          <i class={`mode-${mode}`} />
          {mode}
        </span>
      ))}
    </p>
  );
}

function Tip({ state }: { state: State }) {
  const tip = state.tip.value;
  if (!tip) return null;
  const right = tip.x > innerWidth - 380;
  const low = tip.y > innerHeight - 140;
  const place = {
    left: right ? "auto" : `${tip.x + 14}px`,
    right: right ? `${innerWidth - tip.x + 10}px` : "auto",
    top: low ? "auto" : `${tip.y + 16}px`,
    bottom: low ? `${innerHeight - tip.y + 12}px` : "auto",
  };
  return (
    <div class="tip" role="tooltip" style={place}>
      <b>{tip.title}</b>
      {tip.lines.map((line, i) => (
        <span key={i}>{line}</span>
      ))}
    </div>
  );
}

function Help({ state }: { state: State }) {
  return (
    <div
      class="help"
      role="dialog"
      aria-label="help"
      onClick={() => {
        state.helping.value = false;
      }}
    >
      <dl>
        {KEYS.map(([keys, words]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{words}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

async function start(): Promise<void> {
  const place = document.getElementById("page")!;
  try {
    const buffer = await load();
    const began = performance.now();
    const state = stateOf(decode(buffer));
    link(state);
    listen(state);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (it) => {
      state.theme.value = it.matches ? "dark" : "light";
    });
    effect(() => {
      document.documentElement.dataset.theme = state.theme.value;
    });
    place.textContent = "";
    render(<Page state={state} />, place);
    // Two frames later the first picture is on the screen.
    requestAnimationFrame(() => requestAnimationFrame(() => expose(state, performance.now() - began)));
  } catch (error) {
    place.textContent = `The page could not be shown: ${error instanceof Error ? error.message : String(error)}`;
    place.className = "broken";
  }
}

void start();
