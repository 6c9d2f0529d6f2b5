"""Of several events of one capture, which is shown: the same choice for perf.data and for perf's text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from zombiescope.core.errors import UserError
from zombiescope.core.samples import Origin
from zombiescope.core.words import harmless

NAMELESS = "[no name]"
_HYBRID = re.compile(r"cpu_(?:core|atom)/([^/]{1,255})/\w{0,16}")  # the same event on both kinds of cores
_MODIFIERS = re.compile(r":[a-zA-Z]{1,12}$")  # cycles:ppp; but not sched:sched_switch
_CPU = re.compile(r"(?:cpu-)?cycles|cpu-clock|task-clock|cpu/(?:cpu-)?cycles[^/]{0,255}/")
_CLOCK = re.compile(r"cpu-clock|task-clock")
_MOST = 1000  # events that are listed


def plain(name: str) -> str:
    """An event's name; those that hybrid processors have twice are one."""
    found = _HYBRID.fullmatch(name)
    return found[1] if found else name or NAMELESS


def bare(name: str) -> str:
    """Without modifiers."""
    return _MODIFIERS.sub("", name)


def is_clock(name: str) -> bool:
    """Whether its period is nanoseconds of a core's time."""
    return bool(_CLOCK.fullmatch(bare(name)))


def chosen(counts: Mapping[str, int], wanted: str | None, source: str) -> str:
    """The event asked for; else one that counts a CPU's time; else the one with most samples."""
    if wanted is not None:
        found = [name for name in counts if wanted in (name, bare(name))]
        if not found:
            known = ", ".join(harmless(name, most=120) for name in sorted(counts)[:20])
            raise UserError(f"{source} has no event {harmless(wanted)!r}: --event takes {known or 'none, it is empty'}")
        return max(found, key=lambda name: (name == wanted, counts[name], name))
    filled = [name for name in counts if counts[name]] or list(counts)
    return max(filled, key=lambda name: (bool(_CPU.fullmatch(bare(name))), counts[name], name), default=NAMELESS)


def origin(form: str, producer: str, name: str, counts: Mapping[str, int], unit: str) -> Origin:
    measure = "" if name == NAMELESS else f"{name} in nanoseconds" if unit == "nanoseconds" else name
    others = sorted((it for it in counts if it != name and counts[it]), key=lambda it: (-counts[it], it))
    return Origin(form, producer, measure, tuple(others[:_MOST]), "--event")


def left_out(name: str, counts: Mapping[str, int]) -> str:
    """A note: how many samples of other events there are; empty if there are none."""
    rest = sum(count for other, count in counts.items() if other != name)
    return f"{rest:,} samples of other events are left out: --event chooses" if rest else ""
