// The bar at the top: what is shown, search, filters, theme and help.
import { useMemo } from "preact/hooks";
import { day, lasting } from "./format";
import { EVERYBODY } from "./samples";
import type { Filter } from "./samples";
import type { State } from "./state";
import { ThemeAndHelp } from "./Round";

const MOST = 300; // entries of a list: those with most samples
const SECONDS = [1, 2, 5, 10, 30, 60, 120];

export function Toolbar({ state }: { state: State }) {
  const { bundle } = state;
  const { header } = bundle;
  const filter = state.filter.value;
  const wrong = state.pattern.value !== null;
  const [comms, cgroups] = useMemo(() => choices(state), []);
  const set = (part: Partial<Filter>) => {
    const next = { ...filter, ...part };
    state.filter.value = Object.values(next).every((it) => it === null) ? EVERYBODY : next;
  };
  const cpus = bundle.cpus.filter((it) => it >= 0);
  return (
    <header class="bar">
      <h1>zombiescope</h1>
      <p class="what">
        <b>{header.case?.node || header.label || "capture"}</b>
        <span>
          {[
            header.case?.kernel && `Linux ${header.case.kernel}`,
            day(bundle, 0),
            header.length ? lasting(header.length) : "",
            `${header.samples.toLocaleString("en")} samples`,
            header.hz ? `${Number(header.hz.toPrecision(3))} Hz` : "",
          ]
            .filter(Boolean)
            .join(" · ")}
        </span>
      </p>
      <label
        class={`search${wrong ? " wrong" : ""}`}
        title="regular expression; press / to search"
      >
        <input
          id="search"
          type="search"
          placeholder="search functions (regex)"
          spellcheck={false}
          autocomplete="off"
          aria-label="search functions by regular expression"
          aria-invalid={wrong}
          value={state.search.value}
          onInput={(event) => {
            state.search.value = event.currentTarget.value;
          }}
        />
        {wrong ? <span role="alert">{state.pattern.value}</span> : null}
      </label>
      <Choice
        name="core"
        value={filter.cpu === null ? "" : String(filter.cpu)}
        options={cpus.map((it) => [String(it), `core ${it}`])}
        onChoice={(it) => set({ cpu: it === "" ? null : Number(it) })}
      />
      <Choice
        name="process"
        value={process(filter)}
        options={comms}
        onChoice={(it) =>
          set({
            comm: it ? it.slice(it.indexOf(" ") + 1) : null,
            pid: it && !it.startsWith("* ") ? Number(it.split(" ")[0]) : null,
          })
        }
      />
      <Choice
        name="cgroup"
        value={filter.cgroup ?? ""}
        options={cgroups}
        onChoice={(it) => set({ cgroup: it || null })}
      />
      {header.events.length ? (
        <label class="before" title="how many seconds before a clicked event to show">
          before
          <select
            value={String(state.before.value)}
            onChange={(event) => {
              state.before.value = Number(event.currentTarget.value);
            }}
          >
            {SECONDS.map((it) => (
              <option key={it} value={String(it)}>
                {it} s
              </option>
            ))}
          </select>
        </label>
      ) : null}
      <ThemeAndHelp state={state} />
    </header>
  );
}

function process(filter: Filter): string {
  return filter.comm === null ? "" : `${filter.pid === null ? "*" : filter.pid} ${filter.comm}`;
}

interface ChoiceProps {
  name: string;
  value: string;
  options: [string, string][];
  onChoice: (value: string) => void;
}

function Choice({ name, value, options, onChoice }: ChoiceProps) {
  if (options.length < 2) return null;
  return (
    <select
      class={value ? "on" : ""}
      name={name}
      aria-label={name}
      value={value}
      onChange={(event) => onChoice(event.currentTarget.value)}
    >
      <option value="">every {name}</option>
      {options.map(([key, words]) => (
        <option key={key} value={key}>
          {words}
        </option>
      ))}
    </select>
  );
}

/** Processes by name, and by pid where several have the same name; cgroups with their parents; by CPU time. */
function choices(state: State): [[string, string][], [string, string][]] {
  const { whos, spent } = state.bundle;
  const comms = new Map<string, number>();
  const pids = new Map<string, number>();
  const cgroups = new Map<string, number>();
  const add = (to: Map<string, number>, key: string, more: number) => to.set(key, (to.get(key) ?? 0) + more);
  whos.forEach((who, i) => {
    if (!spent[i]) return;
    add(comms, who.comm, spent[i]);
    if (who.pid >= 0) add(pids, `${who.pid} ${who.comm}`, spent[i]);
    for (let path = who.cgroup; path.length > 1; path = path.slice(0, path.lastIndexOf("/")))
      add(cgroups, path, spent[i]);
  });
  const sorted = (from: Map<string, number>) =>
    [...from]
      .sort((a, b) => b[1] - a[1])
      .slice(0, MOST)
      .map(([key]) => key);
  const several = new Set(
    [...comms.keys()].filter((comm) => [...pids.keys()].filter((it) => it.endsWith(` ${comm}`)).length > 1),
  );
  const names = sorted(comms).flatMap((comm): [string, string][] => [
    [`* ${comm}`, comm || "(no name)"],
    ...(several.has(comm)
      ? sorted(pids)
          .filter((it) => it.endsWith(` ${comm}`))
          .slice(0, 8)
          .map((it): [string, string] => [it, `  ${comm} [${it.split(" ")[0]}]`])
      : []),
  ]);
  return [
    names,
    sorted(cgroups)
      .sort()
      .map((it) => [it, it]),
  ];
}
