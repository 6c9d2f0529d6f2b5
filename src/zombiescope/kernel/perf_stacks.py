"""One call chain: the addresses that a sample found, leaf first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawStack:
    """Addresses, leaf first: the kernel's part, and the process's own code that led there.

    Addresses of a process mean nothing without its pid. A stack of the kernel alone belongs to no process: its pid is
    0. Both are empty where the chain was not requested (code of a process, with user=False) or could not be walked.
    Addresses inside a virtual machine's guest are left out.
    """

    kernel: tuple[int, ...]
    user: tuple[int, ...]
    pid: int
