// Numbers and times as people read them.
import type { Bundle } from "./data";
import type { Range } from "./samples";

export const SECOND = 1e9;

const two = (value: number): string => String(value).padStart(2, "0");

/** A time on the axis: UTC, or seconds of the machine's own clock, as perf and dmesg print them. */
export function clock(bundle: Bundle, time: number, decimals = 0): string {
  const [whole, rest] = parts(bundle, time, decimals);
  const digits = decimals ? `.${rest}` : "";
  if (bundle.header.clock !== "unix") return `${whole}${digits} s`;
  const date = new Date(whole * 1000);
  return `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}${digits}`;
}

export function day(bundle: Bundle, time: number): string {
  return bundle.header.clock === "unix" ? new Date(parts(bundle, time, 0)[0] * 1000).toISOString().slice(0, 10) : "";
}

/** Whole seconds of the clock, and the rest in digits; rounded together, so that 59.9996 becomes 60.000. */
function parts(bundle: Bundle, time: number, decimals: number): [number, string] {
  const scale = 10 ** decimals;
  const origin = Number(BigInt(bundle.header.origin) / 1_000_000_000n);
  const rounded = decimals ? Math.round((time / SECOND) * scale) : Math.floor(time / SECOND);
  const whole = Math.floor(rounded / scale); // times before the axis begins are negative
  return [origin + whole, String(rounded - whole * scale).padStart(decimals, "0")];
}

/** How far the time of this browser is from UTC, as in +02:00; "" if it is UTC, or if the source has another clock. */
export function localOffset(bundle: Bundle, time: number): string {
  if (bundle.header.clock !== "unix") return "";
  const minutes = -new Date(parts(bundle, time, 0)[0] * 1000).getTimezoneOffset();
  const size = Math.abs(minutes);
  return minutes ? `${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}` : "";
}

/** A time on the clock of this browser; "" where that is UTC. */
export function localClock(bundle: Bundle, time: number): string {
  if (!localOffset(bundle, time)) return "";
  const date = new Date(parts(bundle, time, 0)[0] * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** Beside a time in UTC: the same on the clock of this browser, if it is another one. */
export function alsoLocal(bundle: Bundle, time: number): string {
  const local = localClock(bundle, time);
  return local && ` UTC, ${local} local`;
}

export function stretch(bundle: Bundle, range: Range): string {
  const decimals = range.end - range.start < 10 * SECOND ? 3 : range.end - range.start < 120 * SECOND ? 1 : 0;
  return `${clock(bundle, range.start, decimals)} – ${clock(bundle, range.end, decimals)}`;
}

export function lasting(time: number): string {
  const seconds = time / SECOND;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${trimmed(seconds, seconds < 10 ? 2 : 1)} s`;
  if (seconds < 7200) return `${trimmed(seconds / 60, 1)} min`;
  return `${trimmed(seconds / 3600, 1)} h`;
}

function trimmed(value: number, decimals: number): string {
  return String(Number(value.toFixed(decimals)));
}

/** The sum of samples: CPU time, or their number. */
export function amount(bundle: Bundle, weight: number): string {
  if (bundle.header.unit === "nanoseconds") return lasting(weight);
  return `${Math.round(weight).toLocaleString("en")} sample${weight === 1 ? "" : "s"}`;
}

export function percent(share: number): string {
  const value = share * 100;
  const size = Math.abs(value);
  return `${value.toFixed(size === 0 || size >= 10 ? 0 : size < 0.095 ? 2 : 1)}%`;
}

export function change(share: number): string {
  return `${share > 0 ? "+" : share < 0 ? "−" : "±"}${percent(Math.abs(share))}`;
}

/** A value with its unit in words. */
export function measured(value: number, unit: string): string {
  if (!Number.isFinite(value)) return "unknown";
  if (unit === "share") return `${percent(value)} of the time`;
  const words = { "per s": "a second", "pages/s": "pages a second" }[unit] ?? unit;
  return words ? `${short(value)} ${words}` : short(value);
}

export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  return size >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(2);
}
