"""What is counted for /metrics: the figures of the last look, and what grew since the agent started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zombiescope.agent.histogram import Histogram

BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
# Of what eBPF times in powers of two of a microsecond: from 128 µs to 4 s, each four times the one before.
WAITS = tuple((1 << place) / 1e6 for place in range(7, 23, 2))
MOST_UNITS = 50  # that were ever restarted: a series each, kept until the agent ends
MOST_RESETS = 50  # devices and reasons
MOST_FAMILIES = 30  # of cgroups that are ever named; the others together
OTHERS = "others"


@dataclass(slots=True)
class Metrics:
    """All that is counted; `look` adds what one look found."""

    looks: int = 0
    failed_looks: int = 0
    last_look: float = 0.0
    last: Mapping[str, Any] = field(default_factory=dict)  # the last look
    events: dict[str, int] = field(default_factory=lambda: {"began": 0, "changed": 0, "ended": 0})
    saturated: float = 0.0
    throttled: float | None = None
    memory_waiting: float | None = None
    throttled_by_class: dict[str, float] = field(default_factory=dict)  # seconds of each class of workload
    stalled_by_class: dict[str, float] = field(default_factory=dict)
    delays: Histogram = field(default_factory=lambda: Histogram(BUCKETS))
    waits: dict[str, Histogram] = field(default_factory=dict)  # by kind of softirq
    run_delays: dict[str, Histogram] = field(default_factory=dict)  # by class of workload
    cores: dict[str, list[float]] = field(default_factory=dict)  # of each: seconds in the kernel, seconds saturated
    _families: dict[str, None] = field(default_factory=dict)  # named so far
    restarts: dict[str, float] = field(default_factory=dict)
    resets: dict[tuple[str, str], int] = field(default_factory=dict)
    _episodes: dict[tuple[str, float], int] = field(default_factory=dict)

    def look(self, look: Mapping[str, Any]) -> None:
        figures = look["figures"]
        self.looks += 1
        self.last, self.last_look = look, look["span"][1]
        self.saturated += figures["saturated_seconds"]
        self.throttled = _added(self.throttled, figures["throttled_seconds"])
        self.memory_waiting = _added(self.memory_waiting, figures["memory_waiting_seconds"])
        for totals, new in (
            (self.throttled_by_class, figures["throttled_by_class"]),
            (self.stalled_by_class, figures["stalled_by_class"]),
        ):
            totals |= {name: totals.get(name, 0.0) + seconds for name, seconds in new.items()}
        if figures["softirq_delay"] is not None:
            self.delays.add(figures["softirq_delay"])
        for histograms, timed in ((self.waits, figures["softirq_wait"]), (self.run_delays, figures["run_delay"])):
            for label, waits in timed.items():
                histograms.setdefault(label, Histogram(WAITS)).add(waits)
        for core, *seconds in figures["cores"]:
            self.cores[core] = [old + new for old, new in zip(self.cores.get(core, (0.0, 0.0)), seconds, strict=True)]
        for unit, times in figures["restarts"].items():
            if unit in self.restarts or len(self.restarts) < MOST_UNITS:
                self.restarts[unit] = times
        self._reset(figures["resets"], look["span"][0])

    def families(self) -> list[tuple[str, float, float | None]]:
        """Of the last look: family, how many were made, how many are dying (None: not known)."""
        found: dict[str, list[float | None]] = {}
        for name, made, dying in self.last.get("figures", {}).get("families", []):
            if name not in self._families and len(self._families) < MOST_FAMILIES:
                self._families[name] = None
            it = found.setdefault(name if name in self._families else OTHERS, [0.0, None])
            it[0] = (it[0] or 0.0) + made
            it[1] = _added(it[1], dying)
        return [(name, made or 0.0, dying) for name, (made, dying) in found.items()]

    def _reset(self, resets: list[list[Any]], start: float) -> None:
        """An episode may grow from look to look: only what is new counts."""
        for device, reason, began, times in resets:
            key = (device, reason)
            if key in self.resets or len(self.resets) < MOST_RESETS:
                before = self._episodes.get((device, began), 0)
                self.resets[key] = self.resets.get(key, 0) + max(times - before, 0)
                self._episodes[device, began] = max(times, before)
        self._episodes = {key: times for key, times in self._episodes.items() if key[1] >= start - 3600}


def _added(total: float | None, new: float | None) -> float | None:
    return total if new is None else (total or 0.0) + new


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the agent costs, and how its parts are."""

    cpu_seconds: float
    memory: Mapping[str, int]  # bytes, by process
    recorder_up: bool
    recorder_starts: int
    every: float  # seconds between looks, as stretched by the budget
    lost: Mapping[str, int]  # events that could not be delivered, by target
    pushed: Mapping[str, int] = field(default_factory=dict)  # profiles handed over for a target
    not_pushed: Mapping[str, int] = field(default_factory=dict)  # and given up
    shipped: Mapping[str, int] = field(default_factory=dict)  # hours for the fleet, by result
    to_ship: int | None = None  # hours that wait
    remedies: Mapping[str, int] = field(default_factory=dict)  # the agent's own fixes, by result
