"""The page in a real browser: a synthetic 12 hours painted, panned and zoomed, and a flame graph of 80,000 frames.

Each ratio is of wall time to its limit: the page is for a person who waits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench._browser import browsing, first_picture
from zombiescope.core.samples import Frames, Function, Samples, Who
from zombiescope.core.timeline import Series, Timeline

FIRST, FRAME, FLAME = 300.0, 33.0, 200.0  # milliseconds
HOURS, HZ, CORES, BUSY = 12, 49, 16, 0.12  # 4.1 million samples
FRAMES, DEEPEST = 110_000, 60
SECOND = 1_000_000_000


def twelve_hours(hours: float = HOURS, cores: int = CORES) -> Samples:
    """A node at work in waves, with a stack for every whim: its tree has more than 80,000 frames."""
    dice = np.random.default_rng(12)
    seconds = round(hours * 3600)
    looks = seconds * HZ
    level = BUSY * (0.4 + 1.2 * np.sin(np.arange(looks) / HZ / 900) ** 2)
    core, look = np.nonzero(dice.random((cores, looks), np.float32) < level)
    at = look.astype(np.int64) * (SECOND // HZ) + dice.integers(0, SECOND // HZ // 2, len(look))
    order = np.argsort(at, kind="stable")
    frames = _stacks(dice)
    # Few stacks are common, most are rare.
    stack = np.minimum(dice.pareto(0.4, len(at)) * 3, len(frames) - 1).astype(np.int32)
    whos = [Who(100 + number, f"worker-{number}", f"/pods/pod{number % 7}") for number in range(40)]
    return Samples(
        at=at[order] + 1_794_000_000 * SECOND,
        cpu=core[order].astype(np.int32),
        tid=np.full(len(at), -1, np.int32),
        who=(frames.of[frames.starts[stack]] % len(whos)).astype(np.int32),  # by its outermost function
        stack=stack,
        weight=np.full(len(at), SECOND // HZ, np.int64),
        whos=whos,
        idle=np.zeros(len(frames), np.bool_),
        name=lambda: frames,
        unit="nanoseconds",
        clock="unix",
        hz=float(HZ),
        label="twelve hours",
    )


def readings(hours: float = HOURS, cores: int = CORES) -> Timeline:
    """What each core did, once a second, and how long tasks waited."""
    dice = np.random.default_rng(13)
    at = np.asarray(1_794_000_000.0 + np.arange(round(hours * 3600)), np.float64)

    def counter(what: str, subject: str, share: float) -> Series:
        values = np.cumsum(dice.random(len(at)) * 2 * share)
        return Series(what=what, subject=subject, at=at, values=values, until=float(at[-1]), sources=("/proc/stat",))

    shares = {"user": 0.06, "system": 0.04, "softirq": 0.01, "idle": 0.89}
    series = [
        counter(f"cpu_{mode}_seconds_total", f"cpu:{cpu}", it) for cpu in range(cores) for mode, it in shares.items()
    ]
    series += [counter(f"pressure_{kind}_waiting_seconds_total", "node", 0.1) for kind in ("cpu", "memory", "io")]
    seen = Series(what="looked", subject="", at=at, values=np.ones(len(at)), until=float(at[-1]), sources=("/proc",))
    return Timeline(series, {one.what: seen for one in series})


def _stacks(dice: np.random.Generator) -> Frames:
    """A tree grown at random to FRAMES nodes; each is a stack."""
    functions = [Function(f"function_{number}", number % 3 == 0) for number in range(6_000)]
    paths: list[tuple[int, ...]] = [()]
    for _ in range(FRAMES):
        above = paths[int(dice.integers(max(0, len(paths) - 4_000), len(paths)))]
        paths.append((*above[:DEEPEST], int(dice.integers(len(functions)))))
    return Frames(
        functions=functions,
        of=np.array([it for path in paths for it in path], np.int32),
        starts=np.cumsum([0, *(len(path) for path in paths)]),
    )


PAN = """async () => {
  const { state } = window.zombiescope, times = [];
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  state.show({ start: 3600e9, end: 4 * 3600e9 });
  await frame();
  for (let i = 0; i < 120; i++) {
    const began = performance.now();
    if (i < 60) state.pan(0.02); else if (i < 90) state.zoom(0.82, null); else state.zoom(1 / 0.82, null);
    await frame();
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
}"""
WHOLE = """async () => {
  const { state } = window.zombiescope, frame = () => new Promise((done) => requestAnimationFrame(done));
  state.choose({ start: 0, end: 60e9 });
  await frame(); await frame();
  const began = performance.now();
  state.choose(null);
  await frame(); await frame();
  const { total } = state.now.value;
  return [performance.now() - began, total.reduce((found, it) => found + (it > 0), 0)];
}"""


def ratios() -> Iterator[tuple[str, float, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        made = written(file)
        found = measured(file.as_uri())
        size = file.stat().st_size / 1e6
    load = f"load {os.getloadavg()[0]:.1f}"
    told = f"{made:,} samples, {HOURS} h, {CORES} cores, file of {size:.0f} MB; {load}"
    yield "first picture", found["painted"] / FIRST, 1.0, f"{found['painted']:.0f} of {FIRST:.0f} ms; {told}"
    yield "pan and zoom, p95", found["frame"] / FRAME, 1.0, f"{found['frame']:.0f} of {FRAME:.0f} ms a frame; {load}"
    whole = f"{found['flame']:.0f} of {FLAME:.0f} ms for {found['frames']:,.0f} frames of all samples; {load}"
    yield "flame graph", found["flame"] / FLAME, 1.0, whole


def written(file: Path) -> int:
    from zombiescope.web.onefile import one_file
    from zombiescope.web.payload import bundle

    capture = twelve_hours()
    file.write_bytes(one_file(bundle(capture, readings()), "twelve hours"))
    return len(capture)


def measured(address: str) -> dict[str, float]:
    with browsing() as page:
        painted = first_picture(page, address, "window.zombiescope.painted")
        frame: Any = min(page.evaluate(PAN) for _ in range(3))
        flame, frames = min(page.evaluate(WHOLE) for _ in range(3))
    return {"painted": painted, "frame": frame, "flame": flame, "frames": frames}
