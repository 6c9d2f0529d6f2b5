"""Read the output of `perf script`: a line for each event, and below it a line for each frame.

    comm with spaces  4771/4772 [003]  5076.836336:    1001001 cpu-clock:
            ffffffff81051586 native_safe_halt+0x6 ([kernel.kallsyms])

Which columns there are depends on perf's version and on `-F`: process or thread or both, with or without a core,
microseconds or nanoseconds, with or without a period, with frames below the line or one at its end. Lines of `#` are
perf's own header.

Most stacks come again and again, so a stack's text is looked up before it is taken apart: 209,000 samples (79 MB) take
1.6 times what perf needs to print them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile.events import left_out, origin
from zombiescope.profile.gathering import LONGEST_LINE, Gathering, named
from zombiescope.profile.kernel_files import UNKNOWN, kernel_module, unnamed
from zombiescope.profile.perf_script_events import Kinds
from zombiescope.profile.perf_script_frames import VAGUE, name_and_file

# Repetitions are bounded, or a line of a million blanks would take hours.
_WHO = rb"[ ]{0,64}(\S.{0,255}?)[ \t]{1,64}(-?\d{1,10})(?:/(-?\d{1,10}))?[ \t]{1,64}(?:\[(\d{1,6})\][ \t]{1,64})?"
_WHAT = rb"[ \t]{0,64}(?:(\d{1,18})[ \t]{1,64})?(?:(\S{1,255}):(?=[ \t]|$))?[ \t]{0,64}(.*)"
_TIMED = re.compile(_WHO + rb"(\d{1,10})\.(\d{1,9}):" + _WHAT, re.DOTALL)
_UNTIMED = re.compile(_WHO + rb"()()" + _WHAT, re.DOTALL)
_FRAME = re.compile(rb"[ \t]{0,64}([0-9a-fA-F]{1,16})(?:[ \t]{1,64}(.*))?", re.DOTALL)
_COMMON = re.compile(rb"\t *+([0-9a-f]{1,16}) ([^ ()+]++)(?:\+0x[0-9a-f]{1,16})? \(([^()]++)\)")  # nearly all frames
_SOURCE_LINE = re.compile(rb"[ \t]{2,64}\S{1,4096}:\d{1,9}")  # below its frame, with -F +srcline
_HZ = re.compile(rb"sample_freq \} = (\d{1,6})\b|cmdline : .{0,4096}? (?:-F|--freq)[ =]?(\d{1,6})\b")
# Of perf's own header: who wrote it.
_SAYS = tuple(
    (re.compile(rb"# %b : (\S{1,255})" % what), says)
    for what, says in ((b"perf version", "perf {}"), (b"hostname", "on {},"), (b"os release", "Linux {}"))
)
_KERNEL_HALF = 0xFFFF_8000_0000_0000  # addresses of x86-64, arm64 and others from here on are the kernel's
_UNIX = 10**18  # nanoseconds: above it, time since 1970: no machine has been up for 31 years
_FIRST = 20  # lines that are looked at to see what a file is
_BLOCK = 1 << 20  # bytes in which an empty line must come: a stack of 1,024 frames is 100 KB
_MOST_KEPT = (
    200_000  # lines, and half as many stacks, known by their bytes: 60 MB. If there are more, all are forgotten
)
_LONG = 8192  # bytes: a stack or a line that is longer is not remembered


class _Event(NamedTuple):
    at: int
    cpu: int
    tid: int
    who: int
    period: int  # 0 if not given
    name: bytes  # of the event
    tail: bytes  # what the line says after the event's name


class _Place(NamedTuple):
    """A frame's function by its number; if only the address says that it is the kernel's, also as user code."""

    function: int
    kernel: bool
    as_user: int


def parse(pieces: Iterable[bytes], source: str = "perf script", event: str | None = None) -> Samples:
    """Parse samples from text in pieces of any size."""
    reader = _Reader(source, event)
    for block, line_ends in _blocks(pieces):
        reader.take(block, line_ends)
        if reader.gathering.full:
            break
    return reader.capture()


def looks_like(beginning: bytes) -> bool:
    """Whether a file with this beginning is from `perf script`: among its first lines is an event, timed or framed."""
    told = [line for line in beginning.replace(b"\r\n", b"\n").split(b"\n") if line.strip() and line[:1] != b"#"]
    return any(
        _TIMED.fullmatch(line) or (_UNTIMED.fullmatch(line) and _is_frame(below))
        for line, below in pairwise([*told[: _FIRST + 1], b""])
    )


def _is_frame(line: bytes) -> bool:
    """An address and a function below an event, behind a tab as perf writes it, or behind blanks."""
    found = _FRAME.fullmatch(line)
    return line[:1] in (b"\t", b" ") and found is not None and (line[:1] == b"\t" or bool(found[2]))


def _blocks(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Blocks of text up to an empty line, and how many line ends follow; without one, any number of whole lines."""
    rest = b""
    for piece in pieces:
        rest += piece
        if b"\r" in rest:
            kept = b"\r" if rest.endswith(b"\r") else b""
            rest = rest.removesuffix(b"\r").replace(b"\r\n", b"\n") + kept
        *whole, rest = rest.split(b"\n\n")
        for block in whole:
            yield block, 2
        if len(rest) > _BLOCK:
            # perf prints no empty line where there are no stacks, and then any line may end a block.
            head, line, tail = rest.rpartition(b"\n")
            if line or len(rest) > LONGEST_LINE:
                yield head or tail, len(line)
                rest = tail if line else b""
    yield rest, 0


class _Reader:
    def __init__(self, source: str, wanted: str | None = None) -> None:
        self.gathering = Gathering(source)
        self._wanted = wanted
        self._producer: dict[str, str] = {}
        self._line = 1
        self._hz = 0.0
        self._stacks: dict[bytes, int] = {}  # by text
        self._places: dict[bytes, _Place] = {}  # by line
        self._functions: dict[tuple[bytes, bytes], _Place] = {}  # by name and file
        self._whos: dict[tuple[bytes, int, bytes], int] = {}
        self._kinds = Kinds()
        self._form: re.Pattern[bytes] | None = None  # of the first event, and so of all

    def take(self, block: bytes, line_ends: int = 2) -> None:
        first, _, below = block.partition(b"\n")
        event = self._event(first, _TIMED)
        stack = self._frames_only(below) if event and below[:1] == b"\t" else None
        if event is not None and stack is not None:
            self._add(event, stack)
        else:
            self._line_by_line(block)
        self._line += block.count(b"\n") + line_ends

    def _line_by_line(self, block: bytes) -> None:
        """Text of any kind: file headers, events without frames, lines that are not understood."""
        event, places = None, list[_Place]()
        for number, line in enumerate(block.split(b"\n"), self._line):
            if not line.strip():
                continue
            if line[:1] == b"#" and not _TIMED.fullmatch(line):
                self._learn(line)
                continue
            begun = self._event(line, _TIMED) if line[:1] != b"\t" else None
            if begun is None and line[:1] == b" " and self._form is not _TIMED and line.rstrip().endswith(b":"):
                begun = self._event(line, _UNTIMED)
            place = self._place(line) if begun is None and line[:1] in (b" ", b"\t") else None
            if begun is None and place is None and line[:1] != b"\t":
                begun = self._event(line, _UNTIMED)
            if place is not None and event is not None:
                places.append(place)
                continue
            if event is not None and (begun is not None or line[:1] not in (b" ", b"\t")):
                # What begins here may not be understood, but it ends the event before it.
                self._add(event, self._stacked(places))
                event = None
            if begun is not None:
                event, places = begun, self._at_the_end(begun.tail)
            elif event is None or not _SOURCE_LINE.fullmatch(line):
                self.gathering.odd(number, line)
        if event is not None:
            self._add(event, self._stacked(places))

    def _event(self, line: bytes, form: re.Pattern[bytes]) -> _Event | None:
        found = form.fullmatch(line)
        if found is None:
            return None
        comm, pid, tid, cpu, seconds, fraction, period, name, tail = found.groups()
        process, thread = int(pid), int(tid or pid)  # perf does not say which of the two a single number is
        if not -1 <= process < 1 << 31 or not -1 <= thread < 1 << 31:
            return None
        if form is _UNTIMED and tail and not name:
            return None
        at = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0")) if seconds else 0
        if at >= 1 << 63 or self._form not in (None, form):
            return None
        self._form = form
        cgroup = tail.rstrip() if tail[:1] == b"/" else b""
        key = (comm, process, cgroup)
        who = self._whos.get(key)
        if who is None:
            who = self._whos[key] = self.gathering.who(Who(process, named(comm), named(cgroup)))
        return _Event(at, int(cpu or -1), thread, who, int(period or 0), name or b"", tail)

    def _add(self, event: _Event, stack: int) -> None:
        self._kinds.add(event.name, event.period)
        self.gathering.add(
            at=event.at, cpu=event.cpu, tid=event.tid, who=event.who, stack=stack, weight=max(event.period, 1)
        )

    def _frames_only(self, text: bytes) -> int | None:
        """The stack from lines that are frames, each beginning with a tab as perf writes them; None if one does not."""
        found = self._stacks.get(text)
        if found is None:
            known, places = self._places, []
            for line in text.removesuffix(b"\n").split(b"\n"):
                place = known.get(line) or self._place(line)
                if place is None or line[:1] != b"\t":
                    return None
                places.append(place)
            found = self._stacked(places)
            if len(self._stacks) > _MOST_KEPT // 2:
                self._stacks.clear()
            if len(text) < _LONG:
                self._stacks[text] = found
        return found

    def _stacked(self, places: list[_Place]) -> int:
        """Innermost first, as perf prints them. Within a user's part an address alone makes nothing the kernel's."""
        functions, user = [], False
        for function, kernel, as_user in places:
            user = user or not kernel
            functions.append(as_user if user else function)
        return self.gathering.stack(functions[::-1])

    def _at_the_end(self, tail: bytes) -> list[_Place]:
        """The one frame that an event without a stack has at the end of its line."""
        place = self._place(tail) if tail.rstrip().endswith(b")") else None
        return [] if place is None else [place]

    def _place(self, line: bytes) -> _Place | None:
        place = self._places.get(line) or self._told(line)
        if len(self._places) > _MOST_KEPT:
            self._places.clear()
        if place is not None and len(line) < _LONG:
            self._places[line] = place
        return place

    def _told(self, line: bytes) -> _Place | None:
        common = _COMMON.fullmatch(line)
        if common is not None and common[3] not in VAGUE:
            key = (common[2], common[3])
            if key not in self._functions:
                self._functions[key] = self._placed(common[1], named(common[2]), named(common[3]))
            return self._functions[key]
        found = _FRAME.fullmatch(line)
        return found and self._placed(found[1], *name_and_file((found[2] or b"").strip()))

    def _placed(self, address: bytes, name: str, file: str) -> _Place:
        module = kernel_module(file)
        if module is not None:
            number = self.gathering.function(Function(name, True, module))
            return _Place(number, True, number)
        own_name = unnamed(file) if name == UNKNOWN else name
        as_user = self.gathering.function(Function(own_name, False, "" if file == UNKNOWN else file))
        if file == UNKNOWN and int(address, 16) >= _KERNEL_HALF:
            return _Place(self.gathering.function(Function(name, True)), True, as_user)
        return _Place(as_user, False, as_user)

    def _learn(self, line: bytes) -> None:
        if found := _HZ.search(line):
            self._hz = self._hz or float(found[1] or found[2])
        for form, says in _SAYS:
            if found := form.match(line):
                self._producer.setdefault(says, says.format(named(found[1])))

    def capture(self) -> Samples:
        choice = self._kinds.chosen(self._wanted, self.gathering.source)
        if others := left_out(choice.name, choice.counts):
            self.gathering.note(others)
        producer = " ".join(self._producer[says] for _, says in _SAYS if says in self._producer)
        found = self.gathering.capture(
            unit=choice.unit,
            clock="machine" if self._form is _TIMED else "none",
            hz=choice.hz or self._hz,
            origin=origin("text of perf script", producer, choice.name, choice.counts, choice.unit),
            rows=choice.rows,
        )
        if found.start >= _UNIX:
            found = replace(found, clock="unix")
        if not choice.weighed:
            found.weight[:] = 1
        return found
