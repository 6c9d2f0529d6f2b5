// How wide an element is, as a signal: known before anything is shown, and kept as the window changes.
import { useSignal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import type { RefObject } from "preact";

export function useWidth(place: RefObject<HTMLElement | null>): ReadonlySignal<number> {
  const width = useSignal(0);
  useLayoutEffect(() => {
    const measure = () => {
      width.value = Math.floor(place.current!.getBoundingClientRect().width);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(place.current!);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}
