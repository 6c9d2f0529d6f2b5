"""A text file with a kernel log, plain or packed, as a Timeline: often all that is left of a node."""

from __future__ import annotations

import os

from zombiescope.core import Reading, Unparsable, UserError, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.kernel.log_text import LogText, parse_log
from zombiescope.places.packed import DAMAGED, plain
from zombiescope.processes.opening import regular
from zombiescope.recorder.tape import Tape

LARGEST = 256 << 20  # bytes, unpacked: two million lines; of a larger log give only the hours in question
LONGEST = 1_000  # characters kept of a line, as for the live log
# Whose lines are taken if a log has many writers. Others may quote the kernel.
WRITERS = ("kernel", "systemd", "kubelet", "containerd", "dockerd", "crio")
WHAT = "kernel_log"
_FORMATS = "give dmesg, dmesg -T, journalctl -k, kern.log or a copy of /dev/kmsg"


def timeline_of_log(path: str) -> tuple[Timeline, str]:
    """The log's lines, and how their times were found. Nothing else was sampled, and signs will say so."""
    data, ended = _content(path)
    try:
        log = parse_log(data.decode("utf-8", "surrogateescape"), ended=ended, of=WRITERS.__contains__)
    except Unparsable as error:
        what = (
            "a binary file" if b"\0" in data[:4096] else f"not a log format we read (“{harmless(error.text, most=60)}”)"
        )
        raise UserError(f"{path}: {what}; {_FORMATS}") from error
    if not log.lines:
        raise UserError(f"{path}: no line of the kernel in it; {_FORMATS}")
    return _timeline(log, os.path.abspath(path)), f"{log.format}: {log.clock}"


def _content(path: str) -> tuple[bytes, float]:
    """The file unpacked, and when it was last written."""
    try:
        with open(regular(path), "rb") as file:
            status = os.fstat(file.fileno())
            data = plain(file).read(LARGEST + 1)
    except (OSError, *DAMAGED) as error:
        raise UserError(f"{path}: {(getattr(error, 'strerror', None) or str(error)).lower()}") from error
    if not data.strip():
        raise UserError(f"{path}: empty")
    if len(data) > LARGEST:
        raise UserError(f"{path}: larger than {LARGEST >> 20} MB: give only the hours in question")
    return data, status.st_mtime


def _timeline(log: LogText, source: str) -> Timeline:
    tape = Tape()
    for line in log.lines:
        text = line.text[:LONGEST]
        tape.add(Reading(what=WHAT, subject="node", value=line.level, at=line.at, source=source, text=text))
    # The log counts as sampled from its first line to its last.
    for at in (min(line.at for line in log.lines), max(line.at for line in log.lines)):
        tape.look("log_file", (WHAT,), at)
    return tape.timeline()
