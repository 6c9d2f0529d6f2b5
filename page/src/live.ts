// The page of a running agent: which part of its recording is shown, and whether the last minutes follow by themselves.
import { signal } from "@preact/signals";
import type { State } from "./state";

export interface Live {
  every: number; // seconds between two looks at the last minutes
  query: string; // of the range that is shown
  follows: boolean; // the last minutes, not a fixed range
}

/** What was recorded in all, in unix seconds, and how the page follows it. */
export const recorded = signal<{ first: number; last: number } | null>(null);
export const status = signal("");
export const following = signal(true);

/** How the server says that it is an agent; null in a saved file, and under `zombiescope view`. */
export function liveOf(): Live | null {
  const said = document.querySelector<HTMLMetaElement>('meta[name="zombiescope-live"]');
  if (!said) return null;
  const given = new URLSearchParams(location.search);
  const query = new URLSearchParams();
  for (const name of ["seconds", "from", "to"]) {
    const text = given.get(name);
    if (text !== null && /^\d{1,11}(\.\d{1,9})?$/.test(text)) query.set(name, text);
  }
  const follows = !query.has("from") && !query.has("to");
  return { every: Math.max(Number(said.content) || 15, 5), query: query.toString(), follows };
}

/** Whether somebody is looking at something that an update would take away. */
export function busy(state: State): boolean {
  const typing = document.activeElement instanceof HTMLInputElement || document.activeElement instanceof HTMLSelectElement;
  return Boolean(
    typing || state.chosen.value || state.baseline.value || state.zooming.value || state.focus.value || state.helping.value,
  );
}

/** What a person has set stays as it is when the data is replaced; the range is in the address. */
export function carry(from: State, to: State): void {
  to.theme.value = from.theme.value;
  to.upright.value = from.upright.value;
  to.before.value = from.before.value;
  to.byBaseline.value = from.byBaseline.value;
}
