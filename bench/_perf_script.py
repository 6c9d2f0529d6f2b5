"""Our reading of a perf.data file beside what `perf script` prints of it, sample by sample."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from zombiescope.core.samples import Samples
from zombiescope.naming.demangled import demangled

FIELDS = "comm,pid,tid,cpu,time,event,ip,sym,dso"
_HEAD = re.compile(r" *(.*?) +(-?\d+)/(-?\d+) +\[(\d+)\] +(\d+)\.(\d{9}):", re.DOTALL)
_FRAME = re.compile(r"\s+([0-9a-f]+) (.*?) \((.*)\)$")
_UNKNOWN = "[unknown]"
_KERNEL = 1 << 63  # addresses from here on
_TAKEN_OUT = re.compile(r"PERF_RECORD_KSYMBOL addr [0-9a-f]+ len \d+ type 1 flags 0x1 name (\S+)")
_SHOWN = 3  # samples of which the stacks are shown, if they differ


class Printed(NamedTuple):
    """A sample as perf prints it; frames are addresses and names, leaf first."""

    at: int
    cpu: int
    pid: int
    tid: int
    comm: str
    frames: list[tuple[int, str]]


class Compared(NamedTuple):
    """How many samples there are, and of how many each thing differs."""

    samples: int
    time_and_cpu: int
    who: int  # comm, pid and tid
    kernel: int  # stacks, other than those below
    aliases: int  # only in which of several names of one address was chosen
    forgotten: int  # perf has no name for a BPF program any more that was taken out: see _kernel
    dropped: int  # perf prints no frame at all, and the kernel's are there
    leaf: int
    shown: tuple[str, ...] = ()  # some stacks of the kernel that differ


def printed(path: str) -> Iterator[Printed]:
    argv = ("perf", "script", "--ns", "--no-demangle", "-F", FIELDS, "-i", path)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        head, frames, name = None, [], ""
        for raw in process.stdout:
            line = raw.decode("utf-8", "surrogateescape").rstrip("\n")
            if line.startswith("\t"):
                frame = _FRAME.match(line)
                assert frame, line
                frames.append((int(frame[1], 16), frame[2]))
            elif line.strip():
                if head is not None:
                    yield _made(head, frames)
                head, frames = _HEAD.match(name + line), []
                name = "" if head else f"{name}{line}\n"  # that of a process may have any bytes, a newline too
                assert len(name) < 100, name
        if head is not None:
            yield _made(head, frames)


def _made(head: re.Match[str], frames: list[tuple[int, str]]) -> Printed:
    at = int(head[5]) * 1_000_000_000 + int(head[6])
    return Printed(at, int(head[4]), int(head[2]), int(head[3]), head[1], frames)


def compare(capture: Samples, path: str) -> Compared:
    theirs = sorted(printed(path), key=lambda it: it[:2])
    assert len(theirs) == len(capture), f"perf prints {len(theirs)} samples, we read {len(capture)}"
    other_names, taken_out = _aliases(), _taken_out(path)
    stacks = [list(reversed(capture.frames[stack])) for stack in range(len(capture.frames))]
    differ: Counter[str] = Counter()
    shown: list[str] = []
    for one, row in zip(theirs, np.lexsort((capture.cpu, capture.at)).tolist(), strict=True):
        who, ours = capture.whos[capture.who[row]], stacks[capture.stack[row]]
        differ["time_and_cpu"] += (one.at, one.cpu) != (capture.at[row], capture.cpu[row])
        differ["who"] += (one.comm, one.pid, one.tid) != (who.comm, who.pid, capture.tid[row])
        # Up to where the program begins, whose own stack may hold any number as an address.
        kernel = [name for _, name in takewhile(lambda it: it[0] >= _KERNEL, one.frames)]
        mine = [it.name for it in ours if it.kernel]
        how = _kernel(kernel, mine, bool(one.frames), other_names, taken_out)
        differ[how] += 1
        if how == "kernel" and len(shown) < _SHOWN:
            shown.append(f"{one.comm} at {one.at}: perf {kernel}, we {mine}")
        if one.frames:
            leaf = ours[0].name if ours else ""
            differ["leaf"] += demangled(one.frames[0][1]) != (_UNKNOWN if leaf.startswith("[") else leaf)
    counts = {name: differ[name] for name in Compared._fields[1:-1]}
    return Compared(len(theirs), **counts, shown=tuple(shown))


def _kernel(
    theirs: list[str], ours: list[str], any_frames: bool, other_names: dict[str, set[str]], taken_out: set[str]
) -> str:
    """How the kernel's part of a stack differs.

    A BPF program is reported as taken out while it may still run somewhere. perf forgets its name then; and where
    several profilers run, the kernel makes these records too long, and perf, which looks for their time at the end,
    takes all of them to be from before the first sample.
    """
    if theirs == ours:
        return "same"
    if not any_frames:
        return "dropped"
    if len(theirs) != len(ours):
        return "kernel"
    differ = [(a, b) for a, b in zip(theirs, ours, strict=True) if a != b and a not in other_names[b]]
    if not differ:
        return "aliases"
    return "forgotten" if all(a == _UNKNOWN and b in taken_out for a, b in differ) else "kernel"


def _taken_out(path: str) -> set[str]:
    """Names of the BPF programs that were taken out during a capture, as perf itself lists them."""
    argv = ("perf", "script", "--show-bpf-events", "-F", "comm", "-i", path)
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return set(_TAKEN_OUT.findall(done.stdout.decode("utf-8", "replace")))


def _aliases() -> dict[str, set[str]]:
    """Of each kernel function, the names that its address has."""
    at = defaultdict(set)
    with open("/proc/kallsyms") as file:
        for line in file:
            address, _, name, *_ = line.split()
            at[address].add(name)
    found: dict[str, set[str]] = defaultdict(set)
    for names in at.values():
        for name in names if len(names) > 1 else ():
            found[name] |= names
    return found
