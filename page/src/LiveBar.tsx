// The bar of a running agent: the last minutes, or a range of its recording.
import { SECOND } from "./format";
import { following, recorded, status } from "./live";
import type { Live } from "./live";
import type { State } from "./state";

const LAST: [number, string][] = [
  [600, "10 min"],
  [3600, "1 h"],
  [6 * 3600, "6 h"],
];

export function LiveBar({ state, live }: { state: State; live: Live }) {
  const origin = Number(BigInt(state.bundle.header.origin) / 1_000_000_000n);
  const { start, end } = state.view.value;
  const zoomed = state.view.value !== state.whole;
  const kept = recorded.value;
  const shown = new URLSearchParams(live.query).get("seconds") ?? "600";
  return (
    <nav class="live" aria-label="range of the recording">
      {LAST.map(([seconds, words]) => (
        <a key={words} href={`?seconds=${seconds}`} class={live.follows && shown === String(seconds) ? "on" : ""}>
          last {words}
        </a>
      ))}
      {zoomed ? (
        <a href={`?from=${Math.floor(origin + start / SECOND)}&to=${Math.ceil(origin + end / SECOND)}`}>
          only what is in view, in full
        </a>
      ) : null}
      {kept ? (
        <form
          onSubmit={(event) => {
            event.preventDefault(); // the page's own rules forbid forms that go anywhere
            const said = new FormData(event.currentTarget);
            const [from, to] = ["from", "to"].map((name) => Date.parse(`${String(said.get(name))}Z`) / 1000);
            if (from < to) location.search = `?from=${from}&to=${to}`;
          }}
        >
          <label>
            from <input name="from" type="datetime-local" step="1" required value={entry(origin)} />
          </label>
          <label>
            to <input name="to" type="datetime-local" step="1" required value={entry(origin + state.whole.end / SECOND)} />
          </label>
          <button>show</button>
          <span>
            recorded: {utc(kept.first)} – {utc(kept.last)} UTC
          </span>
        </form>
      ) : null}
      {live.follows ? (
        <button
          id="follow"
          aria-pressed={following.value}
          onClick={() => {
            following.value = !following.value;
          }}
        >
          {following.value ? "live" : "paused"}
        </button>
      ) : null}
      <span role="status">{status.value}</span>
    </nav>
  );
}

function utc(seconds: number): string {
  return entry(seconds).slice(5).replace("T", " ");
}

/** As a field for date and time has it; in UTC. */
function entry(seconds: number): string {
  return new Date(Math.floor(seconds) * 1000).toISOString().slice(0, 19);
}
