"""BPF programs that watch other programs (tracepoints, probes, LSM), and which process holds each.

Overhead: three calls for each loaded program, 3 µs, at most `MOST`. Only where a new one watches other programs: one
    readlink for each open file of every process, 2 µs, as many in a sample as for inotify and in turns.
Kernel: kernel/bpf/syscall.c. Listing programs takes CAP_SYS_ADMIN. A program is kept by who has it open, as a program
    or as a link; /proc/PID/fdinfo shows its number. One that is only pinned in a file, or attached through a perf
    event, has no holder there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.bpf_programs import loaded_programs
from zombiescope.probes._open_files import Turns
from zombiescope.probes._remembering import keeping

EVERY = 60.0
PROGRAM, COUNT = "bpf_program", "bpf_programs_watching"
GIVES = (PROGRAM, COUNT)
MOST = 500  # programs: a CNI with many pods has some hundreds
_SOURCE = "$ bpftool prog show"
_HOLDS = ("anon_inode:bpf-prog", "anon_inode:bpf_link", "anon_inode:bpf-link", "anon_inode:bpf-raw-tracepoint")
_NUMBER = re.compile(r"^prog_id:\s*([0-9]{1,10})$", re.MULTILINE)


@dataclass(slots=True)
class _Known:
    """Who held which program at its turn."""

    turns: Turns = field(default_factory=Turns)
    holders: dict[str, tuple[str, frozenset[int]]] = field(default_factory=dict)  # by pid: its name, the programs
    sought: frozenset[int] = frozenset()  # the programs whose holders were looked for in a whole round


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at = host.now()
    if not host.live:
        raise Unreadable(_SOURCE, "only the running kernel can be asked")
    try:
        watching = [it for it in loaded_programs(MOST) if it.kind]
    except OSError as error:
        raise Unreadable(_SOURCE, f"{error.strerror}: listing BPF programs takes CAP_SYS_ADMIN") from error
    numbers = frozenset(it.number for it in watching)
    if numbers - known.sought:
        _walk(host, known)
        known.sought = numbers if not known.turns.waiting else known.sought
    for program in watching:
        holders = [name for name, numbers in known.holders.values() if program.number in numbers]
        subject = f"bpf:{program.name or program.number}"
        text = holders[0] if holders else ""
        yield Reading(what=PROGRAM, subject=subject, value=program.number, at=at, source=_SOURCE, text=text)
    yield Reading(what=COUNT, subject="node", value=len(watching), at=at, source=_SOURCE)


watch, read = keeping(_Known, _told)


def _walk(host: Host, known: _Known) -> None:
    for owner, files in known.turns.next(host):
        known.holders.pop(owner.pid, None)
        numbers = {_number(host, owner.pid, it) for it, link in files if link in _HOLDS} - {0}
        if numbers:
            known.holders[owner.pid] = (owner.called, frozenset(numbers))
    known.holders = {pid: it for pid, it in known.holders.items() if pid in known.turns.alive}


def _number(host: Host, pid: str, file: str) -> int:
    try:
        found = _NUMBER.search(host.read(f"/proc/{pid}/fdinfo/{file}", most=65_536))
    except Unreadable:
        return 0  # it is closed
    return int(found[1]) if found else 0
