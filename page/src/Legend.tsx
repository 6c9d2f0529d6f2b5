// What the colours mean, of the cores and of the flame graph; and in which order cores are shown.
import { ORDERS } from "./coreRows";
import type { Order } from "./coreRows";
import type { Modes } from "./data";
import type { State } from "./state";

const CORES: [string, string][] = [
  ["mode-user", "program"],
  ["mode-system", "kernel"],
  ["mode-interrupts", "interrupts"],
  ["mode-softirq", "softirq"],
  ["mode-steal", "stolen by the hypervisor"],
];

export function Legend({ state, modes }: { state: State; modes: Modes | null }) {
  const cores = modes ? CORES.slice(0, modes.sampled ? 2 : CORES.length) : []; // samples show only two
  const frames: [string, string][] = state.then.value
    ? [
        ["rose", "grew since the baseline"],
        ["fell", "shrank"],
      ]
    : [
        ["process", "process"],
        ["user", "program"],
        ["kernel", "kernel"],
      ];
  if (state.search.value) frames.push(["match", "matches the search"]);
  return (
    <div class="legend">
      {cores.length ? <Keys title="cores" keys={cores} /> : null}
      <Keys title="flame graph" keys={frames} />
      {modes && modes.cpus.length > 1 ? (
        <label>
          cores{" "}
          <select
            name="order"
            value={state.order.value}
            onChange={(event) => {
              state.order.value = event.currentTarget.value as Order;
            }}
          >
            {Object.entries(ORDERS)
              .filter(([order]) => order !== "node" || modes.nodes.length)
              .map(([order, words]) => (
                <option key={order} value={order}>
                  {words}
                </option>
              ))}
          </select>
        </label>
      ) : null}
    </div>
  );
}

function Keys({ title, keys }: { title: string; keys: [string, string][] }) {
  return (
    <p>
      {title}:{" "}
      {keys.map(([kind, words]) => (
        <span key={kind}>
          <i class={kind} />
          {words}
        </span>
      ))}
    </p>
  );
}
