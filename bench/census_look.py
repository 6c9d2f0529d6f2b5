"""One look at the census with 0, 1,000 and 20,000 dead cgroups: the doctor's cost must not grow with the disease."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cli.census import COUNTERS
from zombiescope.core import Host
from zombiescope.lab._zombies import leaked
from zombiescope.members.rooms import load
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape

COUNTS = (1_000, 20_000)
LOOKS = 400


def ratios() -> Iterator[tuple[str, float, float, str]]:
    without = _cost()
    for count in COUNTS:
        with leaked(count, label="bench"):
            with_them = _cost()
        detail = f"{with_them * 1e6:.0f} µs of CPU against {without * 1e6:.0f} µs, best of {LOOKS}"
        yield f"{count:,} dead against none", with_them / without, 1.3, detail


def _cost() -> float:
    host, probes = Host(), {name: load("probes", name) for name in COUNTERS}
    return min(sum(look(host, name, probe, Tape()) for name, probe in probes.items()) for _ in range(LOOKS))
