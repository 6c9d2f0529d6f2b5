"""System calls by number, for those that neither Python nor the C library wraps; through ctypes."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass

from zombiescope.core.errors import Unreadable

_libc = ctypes.CDLL(None, use_errno=True)
_MACHINE = platform.machine()


@dataclass(frozen=True, slots=True)
class SystemCall:
    """One system call: its name in the manual, and its number on each machine we know."""

    name: str
    numbers: Mapping[str, int]

    def number(self) -> int:
        """Its number here; Unreadable where it is not known."""
        if _MACHINE not in self.numbers:
            known = " and ".join(self.numbers)
            raise Unreadable(self.name, f"its system call number on {_MACHINE} is not known; known are {known}")
        return self.numbers[_MACHINE]

    def __call__(self, *arguments: object) -> int:
        """What it returned; OSError if the kernel refused it."""
        result: int = _libc.syscall(self.number(), *arguments)
        if result < 0:
            refused = ctypes.get_errno()
            raise OSError(refused, os.strerror(refused))
        return result
