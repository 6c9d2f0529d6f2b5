"""A short recording in memory, all that a live diagnosis uses: a head that is settled at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from zombiescope.core import Host
from zombiescope.recorder.head import HeadSink
from zombiescope.recorder.layout import BOOT_ID
from zombiescope.recorder.loop import Loop
from zombiescope.recorder.ring_stream import RingStream
from zombiescope.recorder.stack_series import EVENTS, GIVES, NAME

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline

SELDOM = 60.0  # seconds: a probe with a longer interval is not run once more at the end
PACE = 1.0  # seconds between two readings of the rings of samples


@dataclass(frozen=True, slots=True)
class Short:
    """What was captured, as a recorder would have written it."""

    host: Host
    file: BytesIO
    meta: dict[str, Any]

    @property
    def head(self) -> bytes:
        return self.file.getvalue()

    def timeline(self) -> Timeline:
        from zombiescope.recorder.settle import settled

        found = settled(self.file, self.meta, host=self.host if self.host.live else None)
        return found.timeline(self.meta["gives"], hz=self.meta["hz"])


def record(
    host: Host,
    seconds: float,
    progress: Callable[[float], None] | None = None,
    only: Container[str] | None = None,
    hz: int = 0,
) -> Short:
    """Record a live machine for `seconds`; all probes, or `only` some, run at least at the start and at the end.

    With `hz` the stacks of every core are sampled too. A recorded root does not change, so it is read once. Ctrl-C
    ends the recording early and keeps it.
    """
    file = BytesIO()
    boot = host.read(BOOT_ID, most=100).strip() if host.live else ""
    sink = HeadSink(file.writelines, boot=boot)
    rings: RingStream | None = None
    with contextlib.ExitStack() as stack:
        loop = stack.enter_context(Loop(host, sink, only))
        sink.events = frozenset((*loop.events, *EVENTS))
        if hz and host.live and seconds > 0:
            rings = stack.enter_context(RingStream(host, sink, hz=hz))
            loop.sleep = rings.sleep
            stack.callback(rings.read)

        def take() -> float:
            if rings is not None:
                rings.read()
            loop.collect()
            sink.flush()  # with the clock as it is set then
            return PACE

        loop.every(take)
        loop.look_at_all()
        if host.live and seconds > 0:
            started = time.monotonic()
            if progress is not None:
                loop.every(lambda: progress(time.monotonic() - started) or 0.25)
            with contextlib.suppress(KeyboardInterrupt):
                loop.run(seconds)
            loop.look_at_all(slowest=SELDOM)
    sink.flush()
    meta = {
        "boot_id": boot,
        "hz": rings.hz if rings else 0,
        "gives": loop.gives | ({NAME: GIVES} if rings else {}),
        "events": sorted(sink.events),
    }
    return Short(host, file, meta)
