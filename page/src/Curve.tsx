// Lines over the hours of a range, with their values as a table for those who do not see them.
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { hourOf } from "./fleetTold";
import { short } from "./format";
import type { State } from "./state";
import { useWidth } from "./width";

export interface Line {
  name: string;
  values: (number | null)[]; // null is unknown: the line has a gap
}
interface Props {
  state: Pick<State, "tip">;
  title: string;
  at: number[]; // unix seconds at which each hour begins
  lines: Line[];
  tall?: number;
}

const LEFT = 46; // pixels for the highest value
const LOW = 16; // pixels for the times

export function Curve({ state, title, at, lines, tall = 130 }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const pointed = useSignal(-1);
  const wide = Math.max(width.value - LEFT - 8, 1);
  const high = tall - LOW - 6;
  let most = 0;
  for (const it of lines) for (const value of it.values) if (value !== null && value > most) most = value;
  most ||= 1;
  const x = (i: number) => LEFT + (at.length > 1 ? (i / (at.length - 1)) * wide : wide / 2);
  const y = (value: number) => 4 + high * (1 - value / most);
  const ticks = [...new Set([0, Math.floor(at.length / 3), Math.floor((2 * at.length) / 3), at.length - 1])].filter((it) => it >= 0);
  const days = at.length > 0 && at[at.length - 1] - at[0] > 86_400;
  return (
    <figure class="curve">
      <figcaption>
        {title}
        {lines.length > 1
          ? lines.map((it, i) => (
              <span key={it.name}>
                <i class={`line-${i}`} />
                {it.name}
              </span>
            ))
          : null}
      </figcaption>
      <div
        ref={place}
        onPointerMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const share = (event.clientX - box.left - LEFT) / wide;
          const i = Math.min(Math.max(Math.round(share * (at.length - 1)), 0), at.length - 1);
          pointed.value = i;
          state.tip.value = {
            x: event.clientX,
            y: event.clientY,
            title: `${hourOf(at[i])} UTC, one hour`,
            lines: lines.map((it) => `${it.name}: ${it.values[i] === null ? "unknown" : short(it.values[i]!)}`),
          };
        }}
        onPointerLeave={() => {
          pointed.value = -1;
          state.tip.value = null;
        }}
      >
        <svg width={width.value} height={tall} aria-hidden="true">
          <line class="rule" x1={LEFT} x2={LEFT + wide} y1={y(0)} y2={y(0)} />
          <line class="rule" x1={LEFT} x2={LEFT + wide} y1={y(most)} y2={y(most)} />
          <text x={LEFT - 6} y={y(most) + 8} text-anchor="end">
            {short(most)}
          </text>
          <text x={LEFT - 6} y={y(0)} text-anchor="end">
            0
          </text>
          {ticks.map((i) => (
            <text key={i} x={x(i)} y={tall - 3} text-anchor={i === 0 ? "start" : i === at.length - 1 ? "end" : "middle"}>
              {hourOf(at[i], days)}
            </text>
          ))}
          {pointed.value >= 0 ? <line class="rule" x1={x(pointed.value)} x2={x(pointed.value)} y1={4} y2={y(0)} /> : null}
          {lines.map((it, i) => (
            <path key={it.name} class={`line-${i}`} d={pathOf(it.values, x, y)} />
          ))}
        </svg>
      </div>
      <details>
        <summary>as a table</summary>
        <div class="tables" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
          <table>
            <thead>
              <tr>
                <th scope="col">hour (UTC)</th>
                {lines.map((it) => (
                  <th key={it.name} scope="col">
                    {it.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {at.map((time, i) => (
                <tr key={time}>
                  <th scope="row">{hourOf(time)}</th>
                  {lines.map((it) => (
                    <td key={it.name}>{it.values[i] === null ? "unknown" : short(it.values[i]!)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}

/** Gaps where nothing is known; a value with gaps on both sides is a dot. */
function pathOf(values: (number | null)[], x: (i: number) => number, y: (value: number) => number): string {
  let path = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const begins = i === 0 || values[i - 1] === null;
    path += `${begins ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    if (begins && (i === values.length - 1 || values[i + 1] === null)) path += "h1";
  });
  return path;
}
