// What the colours of the grid mean.
import { stepOf } from "./fleetCells";
import type { FleetState } from "./fleetState";
import { short } from "./format";

const STEPS = 24;

export function FleetLegend({ state }: { state: FleetState }) {
  const { fleet } = state;
  const { heat, grey, found } = state.palette.value;
  const shades = Array.from({ length: STEPS }, (_, i) => heat[stepOf(fleet, fleet.dear * (i / (STEPS - 1)) ** 2)]);
  return (
    <div class="legend">
      <p>
        <span>
          <i style={{ background: css(grey[45]) }} />
          clear
        </span>
        <span>
          <i class="striped" />
          not all could be checked
        </span>
        <span>
          <i class="hollow" />
          silent: sent nothing of late
        </span>
        <span>
          <i style={{ background: css(found[140]) }} />
          sick, cost unknown
        </span>
      </p>
      <p class="scale-of-harm">
        sick: 0
        <span class="shades">
          {shades.map((it, i) => (
            <i key={i} style={{ background: css(it) }} />
          ))}
        </span>
        {short(fleet.dear)} core-hours a day or more, waited and burnt
      </p>
    </div>
  );
}

function css(pixel: number): string {
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
}
