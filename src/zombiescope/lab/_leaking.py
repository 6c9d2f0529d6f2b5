"""A node that has leaked for days, and a real systemd on it whose units the diagnosis sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from zombiescope.lab._scenario import Truth
from zombiescope.lab._systemd import Booted, asked_by_diagnosis, booted
from zombiescope.lab._zombies import leaked

# Dying cgroups when a scenario begins: an incident is diagnosed after days, not in its first minute. A timer that
# fires every minute leaves about as many in a day.
ALREADY = 1_000


def churn_of(family: str) -> Truth:
    """What a diagnosis must say where no unit crashes and each run leaks; `family` is a pattern for what restarts."""
    return Truth(
        chain=("cgroup_churn", "zombie_cgroups"),
        subject=family,
        silent=("crash_looping_unit", "cpu_throttling", "direct_reclaim", "driver_reset"),
    )


@contextmanager
def leaking(
    units: Mapping[str, str], *, label: str, files: Mapping[str, str] | None = None, scale: float = 1.0
) -> Iterator[Booted]:
    """systemd with these units started, beside `ALREADY` dying cgroups, more with a scale above 1."""
    with (
        leaked(round(ALREADY * max(scale, 1.0)), label="already"),
        booted(units, files=files, label=label) as systemd,
        asked_by_diagnosis(systemd),
    ):
        yield systemd
