"""What the probes of the published incidents add: the recorder and `diagnose` with and without them, in one run.

Without them means that each is read once and then not again. Two recorders run side by side, so that both see the same
load; `diagnose` is run in turns. ZOMBIESCOPE_SECONDS=20 measures for a shorter time.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator

from bench._commands import command, cpu_of, weigh
from zombiescope.recorder.budget import default_share

NEWER = (
    *("bpf_programs", "clocksource", "conntrack_losses", "consoles", "cpu_clock", "cpu_weights", "diskstats"),
    *("freezer", "fuse_connections", "inodes", "inotify", "io_limits", "kernel_tables", "net_losses", "numa_memory"),
    *("pids_limits", "pipe_writers", "process_io", "routing_rules", "writeback"),
)
NEVER = 86_400.0  # seconds until the next sample of a probe that is left out
WARM = 12.0  # seconds: starting up and the first sample of every probe are paid once
SECONDS = float(os.environ.get("ZOMBIESCOPE_SECONDS", "60"))
LOOK, TURNS = 8.0, 3  # seconds of one diagnosis, and how many of each


def ratios() -> Iterator[tuple[str, float, float, str]]:
    left_out = [word for name in NEWER for word in ("--set", f"{name}.EVERY={NEVER:g}")]
    with tempfile.TemporaryDirectory() as folder:
        whole, less = _recorders(folder, left_out)
    more = max(whole - less, 0.0)
    detail = f"{whole:.2%} of one core with them, {less:.2%} without; load {os.getloadavg()[0]:.1f}"
    yield "the recorder with them against without", whole / less, 1.6, detail
    yield "what they add against a fifth of the recorder's budget", more / (0.2 * default_share(1)), 1.0, detail
    looks = [[weigh(*_look(it))[0] for it in ([], left_out)] for _ in range(TURNS)]
    with_them, without = (min(it) for it in zip(*looks, strict=True))
    detail = f"{with_them:.2f} s of CPU with them, {without:.2f} s without, the least of {TURNS}"
    yield f"diagnose --seconds {LOOK:g} with them against without", with_them / without, 1.25, detail


def _look(settings: list[str]) -> tuple[str, ...]:
    return command("diagnose", "--seconds", f"{LOOK:g}", *settings)


def _recorders(folder: str, left_out: list[str]) -> tuple[float, float]:
    """Shares of one core of two recorders side by side: with all probes, and without the newer ones."""
    running = [
        subprocess.Popen(
            command("record", f"{folder}/{place}", "--for", f"{WARM + SECONDS + 5}s", "--budget", "0", *settings),
            stderr=subprocess.DEVNULL,
        )
        for place, settings in enumerate(([], left_out))
    ]
    try:
        time.sleep(WARM)
        began, before = time.monotonic(), [cpu_of(it.pid) for it in running]
        time.sleep(SECONDS)
        after, passed = [cpu_of(it.pid) for it in running], time.monotonic() - began
    finally:
        for process in running:
            process.kill()
            process.wait()
    whole, less = ((now - then) / passed for now, then in zip(after, before, strict=True))
    return whole, less
