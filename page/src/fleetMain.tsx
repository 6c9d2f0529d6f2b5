// The fleet's page: all nodes at once, computed here; what takes longer is asked for when it is looked at.
import { effect } from "@preact/signals";
import { render } from "preact";
import "./page.css";
import "./fleet.css";
import { FleetBar, NodesBar } from "./FleetBar";
import { FleetCommon } from "./FleetCommon";
import { fleetOf } from "./fleetData";
import { FleetFlame } from "./FleetFlame";
import { FleetGrid } from "./FleetGrid";
import { linkFleet } from "./fleetHash";
import { FLEET_KEYS, listenToKeys } from "./fleetKeys";
import { FleetLegend } from "./FleetLegend";
import { FleetNode } from "./FleetNode";
import { FleetStatus } from "./FleetStatus";
import { FleetTable } from "./FleetTable";
import { FleetTrends } from "./FleetTrends";
import { fleetStateOf } from "./fleetState";
import type { FleetState } from "./fleetState";
import { Help } from "./Help";
import { Tip } from "./Tip";

declare global {
  interface Window {
    fleet?: { state: FleetState; painted: number };
  }
}

function Page({ state }: { state: FleetState }) {
  const node = state.node.value;
  return (
    <>
      <FleetBar state={state} />
      <div class="sheet with-case">
        <main>
          <Pane state={state} />
        </main>
        {node === null ? <FleetStatus state={state} /> : <FleetNode key={node} state={state} node={node} />}
      </div>
      <Tip state={state} />
      <Help state={state} keys={FLEET_KEYS} />
    </>
  );
}

function Pane({ state }: { state: FleetState }) {
  if (state.pane.value === "common") return <FleetCommon state={state} />;
  if (state.pane.value === "time") return <FleetTrends state={state} />;
  if (state.pane.value === "flame") return <FleetFlame state={state} />;
  return (
    <>
      <NodesBar state={state} />
      {state.arranged.value.order.length ? null : <p class="nothing">no node fits</p>}
      {state.asTable.value ? <FleetTable state={state} /> : <FleetGrid state={state} />}
      <FleetLegend state={state} />
    </>
  );
}

async function start(): Promise<void> {
  const place = document.getElementById("page")!;
  try {
    const answer = await fetch("overview");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
    const state = fleetStateOf(fleetOf(await answer.arrayBuffer()));
    linkFleet(state);
    listenToKeys(state);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (it) => {
      state.theme.value = it.matches ? "dark" : "light";
    });
    effect(() => {
      document.documentElement.dataset.theme = state.theme.value;
    });
    place.textContent = "";
    render(<Page state={state} />, place);
    // Two frames later the first picture is on the screen; the clock began when the address was entered.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        window.fleet = { state, painted: performance.now() };
        document.documentElement.dataset.ready = "yes";
      }),
    );
  } catch (error) {
    place.textContent = `The page could not be shown: ${error instanceof Error ? error.message : String(error)}`;
    place.className = "broken";
  }
}

void start();
