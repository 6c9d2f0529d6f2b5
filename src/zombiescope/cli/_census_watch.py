"""Memory cgroups as they are created, removed and released, one line each, until Ctrl-C."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from zombiescope.core import harmless, lasting
from zombiescope.kernel.cgroup_events import CgroupEvent, watching

PAUSE = 0.2  # seconds between two reads: quick enough to follow, and no load
_WORDS = {"mkdir": "born", "rmdir": "removed", "release": "released"}


def stream(root: int, seconds: float, style: str) -> None:
    """Follow one hierarchy for `seconds` (0: until Ctrl-C), then report what is left."""
    born: dict[int, float] = {}
    removed: dict[int, CgroupEvent] = {}
    with watching(root) as events:
        if style != "json":
            print("time\twhat\tage\tby\tpath", flush=True)
        for event in _until(events.read, seconds):
            since = born.get(event.id) if event.kind == "rmdir" else getattr(removed.get(event.id), "at", None)
            if event.kind == "mkdir":
                born[event.id] = event.at
            elif event.kind == "rmdir":
                removed[event.id] = event
                born.pop(event.id, None)
            else:
                removed.pop(event.id, None)
            _print(event, None if since is None else event.at - since, style)
        lost = events.lost
    print(f"{len(removed):,} removed and still held by the kernel (dying); {lost:,} events lost", file=sys.stderr)
    for event in list(removed.values())[-5:]:
        print(f"  dying for {lasting(time.time() - event.at)}: {harmless(event.path)}", file=sys.stderr)


def _until(read: Callable[[], list[CgroupEvent]], seconds: float) -> Iterator[CgroupEvent]:
    end = time.monotonic() + seconds if seconds else float("inf")
    try:
        while time.monotonic() < end:
            yield from read()
            time.sleep(PAUSE)
        yield from read()
    except KeyboardInterrupt:
        return


def _print(event: CgroupEvent, age: float | None, style: str) -> None:
    """Age: how long a removed cgroup had lived, or how long a released one had been dying."""
    if style == "json":
        row = {"at": event.at, "what": _WORDS[event.kind], "age_seconds": age, "by": harmless(event.comm)}
        print(json.dumps(row | {"path": harmless(event.path, most=5000)}), flush=True)
        return
    clock = datetime.fromtimestamp(event.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    aged = "" if age is None else f"{age:.3f}"
    print(clock, _WORDS[event.kind], aged, harmless(event.comm), harmless(event.path), sep="\t", flush=True)
