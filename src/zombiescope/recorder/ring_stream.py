"""The rings of all cores into a head, as they are: drained once a second, sooner where one is nearly full.

What it cannot see is said with every read, as probes do. Standard library only: the capture process imports this.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from zombiescope.core import Blind, Host, Reading, Unreadable, harmless
from zombiescope.kernel.perf_open import Event
from zombiescope.kernel.perf_rings import Drained, Rings
from zombiescope.recorder.head import HeadSink
from zombiescope.recorder.layout import TROUBLE
from zombiescope.recorder.sampling import Sample
from zombiescope.recorder.side_band import RATE, SideBand
from zombiescope.recorder.stack_series import GAP, GIVES, NAME, SOURCE, TAKEN
from zombiescope.recorder.there_before import names

REFRESH = 10.0  # seconds between two checks for cores that were added or removed


class RingStream:
    """Samples of all cores, from now until the end of its `with` block; none where the kernel refuses."""

    def __init__(self, host: Host, sink: HeadSink, *, hz: int, user: bool = True, side: int = RATE) -> None:
        """`side`: bytes a second for records of processes."""
        self._host, self._sink = host, sink
        self._side = SideBand(side)
        self._open = ExitStack()
        self._rings: Rings | None = None
        self._refreshed = time.monotonic()
        self.lost = 0
        began = time.monotonic_ns()
        try:
            self._rings = self._open.enter_context(Rings(hz=hz, user=user))
        except Unreadable as error:
            self.unseen = [Blind(what=what, source=SOURCE, why=str(error)) for what in GIVES]
            return
        known = Drained(self._rings.cpus[0], names(host, began), 0, None)  # before any sample
        sink.drained(self._rings.event, [known])
        self.unseen = [Blind(what=TAKEN, source=SOURCE, why=why, subject="node") for why in self._rings.blind]
        if self.event != "cpu-clock":
            self.unseen.append(Blind(what=GAP, source=SOURCE, why=f"sampled by {self.event}: a gap is idleness"))

    def __enter__(self) -> RingStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def blind(self) -> list[str]:
        return list(dict.fromkeys(f"{it.why} ({it.source})" for it in self.unseen))

    @property
    def hz(self) -> int:
        """Samples per second on each core, as the kernel grants it; 0 if there are none."""
        return self._rings.event.hz if self._rings else 0

    @property
    def event(self) -> str:
        return self._rings.event.name if self._rings else ""

    @property
    def bytes(self) -> int:
        """Kernel memory that the rings take."""
        return self._rings.bytes if self._rings else 0

    def sleep(self, seconds: float) -> None:
        """Until then; but rings that fill faster are drained in between."""
        if self._rings is None:
            time.sleep(seconds)
        elif self._rings.wait(seconds):
            self._drain(self._rings)

    def read(self) -> None:
        """All that came since the last call."""
        if self._rings is not None:
            self._drain(self._rings)
            if time.monotonic() - self._refreshed > REFRESH:
                self._refreshed = time.monotonic()
                self._rings.refresh()
        self._sink.sample(NAME, Sample(self._host.now(), (), self.unseen, 0.0))

    def change(self, *, hz: int, user: bool) -> None:
        """Another rate, or other stacks, from now on."""
        if self._rings is not None and (hz, user) != (self._rings.event.hz, self._rings.event.user):
            self._drain(self._rings)  # what is from before is read as such
            self._rings.change(hz=hz, user=user)

    def _drain(self, rings: Rings) -> None:
        before = self._sink.ring_bytes
        self.lost += rings.hand_over(self._limited if self._side.storm else self._sink.drained)
        self._side.count(self._sink.ring_bytes - before, self.hz)
        if trouble := self._side.said():
            at = self._host.now()
            said = Reading(what=TROUBLE, subject="node", value=1.0, at=at, source=SOURCE, text=harmless(trouble))
            self._sink.note(at, said)

    def _limited(self, event: Event, drained: Sequence[Drained]) -> None:
        kept, unknown = self._side.within(drained)
        self._sink.drained(event, kept, unknown, self._side.since)
