"""Who vouches for a fact, and who could choose it: that decides what may be acted on with nobody watching."""

from __future__ import annotations

from enum import Enum


class Witness(Enum):
    """In words that a person reads."""

    SYSTEMD = "systemd's own properties, over the bus"
    KERNEL = "the kernel's counters and states"
    ABSENCE = "that something is nowhere on the node"
    NAMES = "names of processes, threads, cgroups, devices or images"
    LOGS = "text of logs"

    @property
    def chooser(self) -> str:
        return _CHOOSERS[self]

    @property
    def may_lie(self) -> bool:
        """Whether a container can make it say what it likes."""
        return self in (Witness.NAMES, Witness.LOGS)


_CHOOSERS = {
    Witness.SYSTEMD: "root of the node; a container only by really making that unit fail",
    Witness.KERNEL: "nobody; a container only by really doing what is counted",
    Witness.ABSENCE: "nobody; a container can only forge the opposite, and then nothing is done",
    Witness.NAMES: "any container",
    Witness.LOGS: "whoever may log, a privileged container among them",
}
