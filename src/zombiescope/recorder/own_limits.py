"""What a process that looks may take itself: memory and CPU time, so that what it reads of others cannot take more.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from zombiescope.core import UserError, amount

# Bytes (RLIMIT_DATA: what is its own and writable, so not files and libraries). Peaks that were measured: 138 to 173 MB
# for settling, 398 MB for 96 cores of a machine full of compilers; 166 MB for examining an hour of 96 cores. The
# largest tables that naming/elf.py reads are some 300 MB.
MOST_MEMORY = 1 << 30
OF_A_SAMPLE = 2048  # bytes: as it was captured, as columns, and its stack if no other is like it
# Seconds. A look takes 0.3 to 0.8, settling a head 2 at most; sorting the largest table of symbols takes 8.
MOST_CPU = 120


def restrict(memory: int, seconds: int) -> None:
    """This process, from now on: so much more memory is a MemoryError, so much CPU time ends it (SIGXCPU)."""
    _set(resource.RLIMIT_DATA, _own_memory() + memory)
    _set(resource.RLIMIT_CPU, seconds)


@contextmanager
def restricted(memory: int, seconds: int) -> Iterator[None]:
    """For a while: more than that, beside what it has taken already, is a UserError."""

    def too_long(_signal: int, _frame: FrameType | None) -> None:
        raise UserError(f"the look was stopped after {seconds} s of CPU time: {_LESS}")

    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime)
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_CPU)
    before = [resource.getrlimit(kind) for kind in kinds]
    handler = signal.signal(signal.SIGXCPU, too_long)
    try:
        _set(resource.RLIMIT_DATA, _own_memory() + memory)
        _set(resource.RLIMIT_CPU, spent + seconds)
        yield
    except MemoryError:
        raise UserError(f"the look needs more than {amount(memory)} of memory: {_LESS}") from None
    finally:
        for kind, limits in zip(kinds, before, strict=True):
            resource.setrlimit(kind, limits)
        signal.signal(signal.SIGXCPU, handler)


_LESS = "look for a shorter time, or without stacks (--hz 0)"


def _own_memory() -> int:
    """What RLIMIT_DATA counts; 0 where Linux does not say. Who looks from a program of his own may have any amount, and
    a thread that finds no memory for its first step is waited for without end.
    """
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def _set(kind: int, wanted: int) -> None:
    """The soft limit alone, and never a higher one than there is."""
    soft, hard = resource.getrlimit(kind)
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(kind, (min([wanted, *known]), hard))
