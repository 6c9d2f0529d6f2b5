// What sick nodes compute that others do not: one flame graph of both, coloured by the difference.
import { useComputed } from "@preact/signals";
import { useRef } from "preact/hooks";
import { useAnswer } from "./ask";
import { unpacked } from "./columns";
import { treeOf } from "./data";
import type { Tree } from "./data";
import { SickChoice } from "./FleetBar";
import type { FleetState } from "./fleetState";
import { many } from "./fleetTold";
import { differenceOf, rise } from "./flame";
import type { Drawing } from "./flame";
import { change, percent } from "./format";
import { Flames } from "./FrameCanvas";
import { flameOf } from "./samples";
import type { Flame } from "./samples";
import { Waiting } from "./Waiting";
import { useWidth } from "./width";

interface Header {
  sick: number;
  others: number;
  functions: { function: string; sick: number; others: number; p: number }[];
  stacks_of: [number, number];
  left_out: number;
}
interface Both {
  header: Header;
  tree: Tree;
  sick: Flame;
  others: Flame;
}

function read(buffer: ArrayBuffer): Both {
  const { header, numbers, words } = unpacked<Header>(buffer, "zsflame1");
  const tree = treeOf({ numbers, words });
  return { header, tree, sick: flameOf(tree, Float64Array.from(numbers("sick"))), others: flameOf(tree, Float64Array.from(numbers("others"))) };
}

export function FleetFlame({ state }: { state: FleetState }) {
  const answer = useAnswer(`flame?sick=${encodeURIComponent(state.sick.value)}`, read);
  return (
    <section class="flame" aria-label="flame graph">
      <div class="nodes-bar">
        <SickChoice state={state} />
      </div>
      {answer.value ? (
        <Difference key={state.sick.value} state={state} both={answer.value} />
      ) : (
        <Waiting answer={answer} words="reading the stacks of both cohorts: some seconds" />
      )}
    </section>
  );
}

function Difference({ state, both }: { state: FleetState; both: Both }) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const { header, tree, sick, others } = both;
  const drawing = useComputed((): Drawing => {
    const focus = state.focus.value < tree.label.length && sick.total[state.focus.value] ? state.focus.value : 0;
    const palette = state.palette.value;
    return { tree, flame: sick, focus, difference: differenceOf(sick, others), labels: null, upright: false, palette, width: width.value };
  });
  const share = (flame: Flame, node: number) =>
    `total ${percent(flame.all ? flame.total[node] / flame.all : 0)}, self ${percent(flame.all ? flame.own[node] / flame.all : 0)}`;
  const tell = (node: number) => ({
    title: tree.names[tree.label[node]],
    lines: [
      `sick nodes: ${share(sick, node)}`,
      `others: ${share(others, node)}`,
      `change: total ${change(rise(drawing.value.difference!, node, "total"))}`,
    ],
  });
  return (
    <>
      <p class="lead">
        {many(header.sick, "sick node")} against {header.others.toLocaleString("en")} others, by the share of their CPU time; stacks of{" "}
        {header.stacks_of[0]} and {header.stacks_of[1]} of them, alike in image and type. Widths are of the sick nodes; red is more than on the
        others, blue is less.
        {header.left_out ? ` ${many(header.left_out, "stack")} that hardly differ are left out.` : ""}
      </p>
      <div class="sides">
        <div class="graph" ref={place} tabIndex={0} role="region" aria-label="frames">
          {sick.all ? (
            <Flames state={state} drawing={drawing} tell={tell} />
          ) : (
            <p class="nothing">no stacks of these nodes in this range</p>
          )}
        </div>
        <Functions it={header} />
      </div>
    </>
  );
}

function Functions({ it }: { it: Header }) {
  return (
    <div class="words" tabIndex={0} role="region" aria-label="functions">
      <h3>More on sick nodes</h3>
      {it.functions.length ? null : <p class="soft">no function: what differs is within chance</p>}
      <table>
        <caption class="unseen">functions by their share of CPU time, on sick nodes and on others</caption>
        <thead>
          <tr>
            <th scope="col">function</th>
            <th scope="col">sick</th>
            <th scope="col">others</th>
            <th scope="col">p</th>
          </tr>
        </thead>
        <tbody>
          {it.functions.map((found) => (
            <tr key={found.function}>
              <td title={found.function}>{found.function}</td>
              <td>{percent(found.sick)}</td>
              <td>{percent(found.others)}</td>
              <td>{found.p.toExponential(0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
