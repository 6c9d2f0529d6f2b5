"""The text that `perf script` prints, for FlameScope, stackcollapse-perf.pl and all else that reads it.

The period of each event is the weight of the sample: nanoseconds of `cpu-clock`, or a number of `samples`. Addresses
are made up, one for each function, since a capture has names only. Cgroups have no column in it.
"""

from __future__ import annotations

import re
from typing import IO

from zombiescope.core.samples import Function
from zombiescope.profile.kernel_files import file_of
from zombiescope.profile.picture import Picture, shown

SUFFIX, BINARY, COMPARES = ".perf-script.txt", False, False
_OFFSET = re.compile(r"\+0x[0-9a-fA-F]+$")
_LONGEST_COMM = 200  # the kernel's have at most 15 bytes
_KERNEL, _USER = 0xFFFFFFFF80000000, 0x400000  # where the made-up addresses begin: each in its half


def write(picture: Picture, out: IO[bytes]) -> None:
    capture, rows = picture.capture, picture.rows
    event = "cpu-clock" if capture.unit == "nanoseconds" else "samples"
    lines = [_frame(place, function) for place, function in enumerate(capture.frames.functions)]
    rate = f", {{ sample_period, sample_freq }} = {capture.hz:.0f}" if capture.hz else ""
    out.write(f"# ========\n# written by zombiescope of {shown(capture.label)}\n".encode())
    out.write(f"# event : name = {event}{rate}\n# ========\n#\n".encode())
    comms = [_comm(who.comm) for who in capture.whos]
    stacks: dict[int, bytes] = {}
    frames = capture.frames
    columns = (capture.at, capture.cpu, capture.tid, capture.who, capture.stack, capture.weight)
    for at, cpu, tid, who, stack, weight in zip(*(column[rows].tolist() for column in columns), strict=True):
        if stack not in stacks:
            of = frames.of[frames.starts[stack] : frames.starts[stack + 1]].tolist()
            stacks[stack] = "".join(lines[it] for it in reversed(of)).encode() + b"\n"
        core = f"[{cpu:03d}] " if cpu >= 0 else ""
        pid = capture.whos[who].pid
        when = f"{at // 10**9}.{at % 10**9:09d}"
        out.write(f"{comms[who]} {pid:7d}/{tid:<7d} {core}{when}: {weight:10d} {event}: \n".encode())
        out.write(stacks[stack])


def _comm(comm: str) -> str:
    """Replace blanks before a number: readers take the first number after a blank as the pid."""
    return re.sub(r" (?=[-\d])", "_", shown(comm)[:_LONGEST_COMM].strip())


def _frame(place: int, function: Function) -> str:
    address = (_KERNEL if function.kernel else _USER) + 16 * place
    name = shown(function.name)
    if _OFFSET.search(name):  # its own: readers take off only the last one
        name += "+0x0"
    return f"\t{address:16x} {name} ({shown(file_of(function))})\n"
