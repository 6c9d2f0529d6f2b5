// Questions to the server: asked when they are first needed, and kept.
import { signal } from "@preact/signals";
import type { Signal } from "@preact/signals";
import { useMemo } from "preact/hooks";

export interface Answer<T> {
  value: T | null;
  wrong: string; // why there is none
}

const KEPT = 50; // answers, the last ones
const kept = new Map<string, Signal<Answer<unknown>>>();

/** For a component: the answer, now or later. One that went wrong is asked for again the next time. */
export function useAnswer<T>(path: string, read: (buffer: ArrayBuffer) => T): Answer<T> {
  return useMemo(() => ask(path, read), [path]).value;
}

function ask<T>(path: string, read: (buffer: ArrayBuffer) => T): Signal<Answer<T>> {
  const known = kept.get(path) as Signal<Answer<T>> | undefined;
  if (known && !known.peek().wrong) return known;
  const answer = signal<Answer<T>>({ value: null, wrong: "" });
  kept.set(path, answer as Signal<Answer<unknown>>);
  if (kept.size > KEPT) kept.delete(kept.keys().next().value!);
  void (async () => {
    try {
      const got = await fetch(path);
      if (!got.ok) throw new Error((await got.text()).slice(0, 300));
      answer.value = { value: read(await got.arrayBuffer()), wrong: "" };
    } catch (error) {
      answer.value = { value: null, wrong: error instanceof Error ? error.message : String(error) };
    }
  })();
  return answer;
}

export function json<T>(buffer: ArrayBuffer): T {
  return JSON.parse(new TextDecoder().decode(buffer)) as T;
}
