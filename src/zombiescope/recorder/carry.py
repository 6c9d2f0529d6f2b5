"""What the next head needs of the last: mappings and names of processes that live on, and where each core was.

DIR/carry, JSON. It only saves work and unknown names: if it is missing, damaged, of another boot or not of just before,
the next head begins without it. It is checked as any file that somebody else may have written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from zombiescope.naming.mappings import Mappings
from zombiescope.naming.mappings_kept import Kept, Row, kept, restore

VERSION = 1
MOST_BYTES = 16 << 20
MOST_THREADS, MOST_CGROUPS, MOST_CORES = 16_384, 4_096, 65_536
MOST_PAUSE = 10_000_000_000  # nanoseconds from one head to the next: beyond it a pid may be another process


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """As it is after a head; empty before the first."""

    boot_id: str = ""
    end: int = 0  # when the rings were last read, of the monotonic clock
    taken: int = 0  # samples, in all
    lost: int = 0
    last: Mapping[int, int] = field(default_factory=dict)  # the time of each core's last sample
    comms: Mapping[int, str] = field(default_factory=dict)  # of threads
    cgroups: Mapping[int, str] = field(default_factory=dict)  # paths
    mappings: tuple[Kept, ...] = ()

    def before(self, at: int, boot_id: str) -> Carry:
        """What of it holds for a head that began at that time, in that boot."""
        fits = bool(self.boot_id) and self.boot_id == boot_id and 0 <= at - self.end < MOST_PAUSE
        return self if fits else Carry(boot_id=boot_id)

    def saved(self) -> bytes:
        said = {
            "version": VERSION,
            "boot_id": self.boot_id,
            "end": self.end,
            "taken": self.taken,
            "lost": self.lost,
            "last": list(self.last.items()),
            "comms": list(self.comms.items()),
            "cgroups": list(self.cgroups.items()),
            "mappings": self.mappings,
        }
        return json.dumps(said, separators=(",", ":")).encode()


def carried(
    before: Carry,
    *,
    end: int,
    mappings: tuple[Kept, ...],
    comms: Mapping[int, str],
    last: Mapping[int, int],
    cgroups: Mapping[int, str],
    taken: int,
    lost: int,
) -> Carry:
    """After a head; without samples in it, all stays as it was."""
    if not end:
        return before
    return replace(
        before,
        end=end,
        taken=taken,
        lost=lost,
        last=last,
        comms=comms,
        cgroups=cgroups,
        mappings=mappings,
    )


def kept_mappings(mappings: Mappings) -> tuple[Kept, ...]:
    return kept(mappings)


def kept_cgroups(paths: Mapping[int, str], told: Set[int]) -> dict[int, str]:
    """The paths of the newest cgroups; those that ran in this head are the newest."""
    last = [it for it in paths if it in told]
    return {it: paths[it] for it in [*(it for it in paths if it not in told), *last][-MOST_CGROUPS:]}


def restored(carry: Carry) -> Mappings:
    mappings = Mappings()
    restore(mappings, carry.mappings)
    return mappings


def loaded(content: bytes) -> Carry:
    """What was saved; an empty one if it is anything else."""
    if len(content) > MOST_BYTES:
        return Carry()
    try:
        said = json.loads(content)
        if not isinstance(said, dict) or said.get("version") != VERSION:
            return Carry()
        return Carry(
            boot_id=_text(said["boot_id"]),
            end=_count(said["end"]),
            taken=_count(said["taken"]),
            lost=_count(said["lost"]),
            last={_count(cpu, 0xFFFF): _count(at) for cpu, at in said["last"][:MOST_CORES]},
            comms={_count(tid, 1 << 31): _text(name) for tid, name in said["comms"][:MOST_THREADS]},
            cgroups={_count(number): _text(path) for number, path in said["cgroups"][:MOST_CGROUPS]},
            mappings=tuple(_kept(it) for it in said["mappings"]),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return Carry()


def _kept(said: Any) -> Kept:
    pid, since, taken, regions = said
    return (_count(pid, 1 << 31), _count(since), _count(taken), tuple(map(_row, regions)))


def _row(said: Any) -> Row:
    start, end, offset, path, build_id, since, major, minor, inode = said
    first = (_count(start, 1 << 64), _count(end, 1 << 64), _count(offset, 1 << 64), _text(path), _hex(build_id))
    return (*first, _count(since), _count(major), _count(minor), _count(inode, 1 << 64))


def _count(said: Any, below: int = 1 << 63) -> int:
    if type(said) is not int or not 0 <= said < below:
        raise ValueError
    return said


def _text(said: Any) -> str:
    if not isinstance(said, str) or len(said) > 4096:
        raise ValueError
    return said


def _hex(said: Any) -> str:
    return bytes.fromhex(_text(said)).hex()
