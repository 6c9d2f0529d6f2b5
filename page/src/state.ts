// What the page shows, as signals: the few that a person changes, and what is derived from them.
import { batch, computed, signal } from "@preact/signals";
import type { Bundle, Happening } from "./data";
import { SECOND } from "./format";
import { refusal } from "./comparing";
import { FEW } from "./coreRows";
import type { Order } from "./coreRows";
import { quietTime } from "./quiet";
import { EVERYBODY, below, flameOf, gridOf, ownOf } from "./samples";
import type { Filter, Range } from "./samples";
import { matching } from "./search";
import { PALETTES, preferred } from "./theme";
import type { Theme } from "./theme";

export interface Tip {
  x: number;
  y: number;
  title: string;
  lines: string[];
}
export type State = ReturnType<typeof stateOf>;
/** What is below the time axis. */
export type Pane = "flame" | "callers" | "tables";

const NARROWEST = 0.1 * SECOND; // visible: five cells of 20 ms
const BEFORE = 10; // seconds before an event: twice what a network driver waits before it resets itself

export function stateOf(bundle: Bundle) {
  const whole: Range = { start: 0, end: Math.max(bundle.header.length, SECOND) };
  const view = signal<Range>(whole);
  const chosen = signal<Range | null>(null);
  const baseline = signal<Range | null>(null);
  const filter = signal<Filter>(EVERYBODY);
  const search = signal("");
  const before = signal(BEFORE);
  const theme = signal<Theme>(preferred());
  const byBaseline = signal(false); // in a difference, how wide frames are drawn: as now, or as in the baseline
  const focus = signal(0); // the frame that fills the flame graph
  const upright = signal(false); // root below, as flames grow; else root on top
  const helping = signal(false);
  const tip = signal<Tip | null>(null);
  const cursor = signal<number | null>(null); // the time under the pointer
  const zooming = signal<Range | null>(null); // the part of the axis that is being dragged over
  const reading = signal<number | null>(null); // the finding that was clicked last

  const comparing = signal(false); // the next drag chooses the baseline
  const dragging = signal(false);
  const notice = signal(""); // what a click could not do, and why
  const pane = signal<Pane>("flame");
  const about = signal<number | null>(null); // the function whose callers and callees are shown
  const order = signal<Order>((bundle.modes ?? bundle).cpus.length > FEW ? "worst" : "number");

  const searched = computed(() => (search.value ? matching(bundle.tree.names, search.value) : null));
  /** Why the search cannot be done. */
  const pattern = computed((): string | null => (typeof searched.value === "string" ? searched.value : null));
  /** Which names match. */
  const labels = computed((): Uint8Array | null => (typeof searched.value === "string" ? null : searched.value));
  const marked = computed(() => (labels.value ? below(bundle.tree, labels.value) : null));
  const grid = computed(() => gridOf(bundle, filter.value, null));
  const foundGrid = computed(() => (marked.value ? gridOf(bundle, filter.value, marked.value) : null));
  const now = computed(() => flameOf(bundle.tree, ownOf(bundle, chosen.value, filter.value)));
  /** Why the baseline says nothing; "" if it does. */
  const refused = computed(() =>
    baseline.value && !dragging.value ? (refusal(bundle, whole, chosen.value ?? whole, baseline.value) ?? "") : "",
  );
  const then = computed(() =>
    baseline.value && !refused.value ? flameOf(bundle.tree, ownOf(bundle, baseline.value, filter.value)) : null,
  );
  const palette = computed(() => PALETTES[theme.value]);

  /** Borders of a range on ticks: then it holds exactly the samples that it seems to. */
  function snapped(range: Range): Range {
    const { tick } = bundle.header;
    const clip = (time: number) => Math.min(Math.max(time, 0), whole.end);
    const start = Math.floor(clip(Math.min(range.start, range.end)) / tick) * tick;
    const end = Math.ceil(clip(Math.max(range.start, range.end)) / tick) * tick;
    return { start, end: Math.max(end, start + tick) };
  }

  function show(range: Range): void {
    const most = whole.end - whole.start;
    const width = Math.min(Math.max(range.end - range.start, Math.min(NARROWEST, most)), most);
    const middle = (range.start + range.end) / 2;
    const start = Math.min(Math.max(middle - width / 2, whole.start), whole.end - width);
    view.value = { start, end: start + width };
  }

  function zoom(factor: number, around: number | null): void {
    const { start, end } = view.value;
    const still = around ?? (start + end) / 2;
    show({ start: still - (still - start) * factor, end: still + (end - still) * factor });
  }

  function pan(share: number): void {
    const { start, end } = view.value;
    const by = (end - start) * share;
    show({ start: start + by, end: end + by });
  }

  function choose(range: Range | null): void {
    batch(() => {
      chosen.value = range && snapped(range);
      if (!range) baseline.value = null;
    });
  }

  function compare(range: Range | null): void {
    batch(() => {
      baseline.value = range && snapped(range);
      if (range && !chosen.value) chosen.value = whole;
    });
  }

  /** The seconds before an event, compared with the nearest earlier quiet time. */
  function beforeEvent(event: Happening): void {
    const length = before.value * SECOND;
    const at = event.start * SECOND;
    batch(() => {
      notice.value = "";
      choose({ start: at - length, end: Math.max(at, bundle.header.tick) });
      const quiet = quietTime(bundle.header.events, whole, at, length);
      baseline.value = quiet && snapped(quiet);
      const start = Math.min(at - length, baseline.value?.start ?? at);
      const end = Math.max(at, baseline.value?.end ?? at);
      reveal({ start, end });
    });
  }

  /** Bring a range into view, with room around it, if it is not well in view already. */
  function reveal(range: Range): void {
    const { start, end } = view.value;
    const width = range.end - range.start;
    const seen = range.start >= start && range.end <= end && width > (end - start) / 40;
    if (!seen) show({ start: range.start - width / 2 - SECOND, end: range.end + width / 2 + SECOND });
  }

  /** One step back: the baseline, then the search, then filters, then the range. */
  function back(): void {
    if (helping.value) helping.value = false;
    else if (comparing.value) comparing.value = false;
    else if (notice.value) notice.value = "";
    else if (pane.value !== "flame") pane.value = "flame";
    else if (focus.value) focus.value = 0;
    else if (baseline.value) baseline.value = null;
    else if (search.value) search.value = "";
    else if (filter.value !== EVERYBODY) filter.value = EVERYBODY;
    else choose(null);
  }

  return {
    bundle,
    whole,
    view,
    chosen,
    baseline,
    filter,
    search,
    before,
    theme,
    byBaseline,
    focus,
    upright,
    helping,
    tip,
    cursor,
    zooming,
    reading,
    comparing,
    dragging,
    notice,
    pane,
    about,
    order,
    pattern,
    refused,
    labels,
    marked,
    grid,
    foundGrid,
    now,
    then,
    palette,
    show,
    zoom,
    pan,
    choose,
    compare,
    beforeEvent,
    back,
  };
}
