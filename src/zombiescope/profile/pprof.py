"""Read pprof, the profiles that Go, Parca, Pyroscope and others write: one message of protocol buffers, uncompressed.

The format: google/pprof, proto/profile.proto. Of several kinds of values the one that `go tool pprof` shows is used:
the default, or else the last. Labels, if present, give process, thread and core; as text or as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile.gathering import Gathering, named
from zombiescope.profile.kernel_files import UNKNOWN, kernel_module
from zombiescope.profile.wire import fields, numbers, signed

LARGEST_FILE = 1 << 29  # bytes, unpacked: 512 MB. Whole days of a busy service are some 20 MB
MOST_FRAMES = 10_000  # in one stack: deeper ones are cut, at their outer end
_COUNTED = "samples"
_NANOSECONDS = {"nanoseconds": 1, "microseconds": 1000, "milliseconds": 10**6, "seconds": 10**9}
# The first of these labels that a sample has; perf_to_profile, Parca, Pyroscope, Datadog and ours differ.
_LABELS = {
    "cpu": ("cpu", "cpu.logical_number"),
    "pid": ("pid", "process_id", "process id"),
    "tid": ("tid", "thread_id", "thread id"),
    "comm": ("comm", "thread_comm", "thread", "thread_name", "thread name"),
    "cgroup": ("cgroup", "container", "container_id"),
}
_FALLBACK = "[all]"  # the process, if unknown


class _Line(NamedTuple):
    function: int
    mapping: int


def parse(pieces: Iterable[bytes], source: str = "pprof") -> Samples:
    """Parse the samples of a profile in pieces of any size."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST_FILE:
            raise Unparsable(source, LARGEST_FILE, "too large for a profile")
    return _Profile(bytes(data), source).capture()


def looks_like(beginning: bytes) -> bool:
    """Whether a file with this beginning is a profile: its first field is a message that describes its values."""
    if beginning[:1] not in (b"\x0a", b"\x12"):  # sample_type, or a sample
        return False
    try:
        field, told = next(fields(beginning, ""))
        if not isinstance(told, slice) or told.stop - told.start > 1 << 20:
            return False
        allowed = (1, 2) if field == 1 else (1, 2, 3)
        inner = [field for field, _ in fields(beginning, "", told.start, told.stop)]
        return bool(inner) and all(field in allowed for field in inner)
    except Unparsable:
        return False


class _Profile:
    def __init__(self, data: bytes, source: str) -> None:
        self._data, self._source = data, source
        self._gathering = Gathering(source)
        self._samples: list[slice] = []
        self._types: list[tuple[int, int]] = []
        self._texts: list[slice] = []
        self._functions: dict[int, int] = {}  # id → its name's text
        self._mappings: dict[int, int] = {}  # id → its file's text
        self._locations: dict[int, list[_Line]] = {}  # id → innermost first: a place of inlined functions has many
        self._numbers: dict[int, int] = {}
        self._period_unit = 0
        self._known: dict[_Line, int] = {}
        try:
            for field, told in fields(data, source):
                self._take(field, told)
        except Unparsable as error:
            if not self._samples:
                raise
            self._gathering.note(f"damaged at byte {error.line}: {error.text}")

    def _take(self, field: int, told: int | slice) -> None:
        """One field of the profile itself."""
        if isinstance(told, int):
            self._numbers[field] = told
        elif field == 1:
            kind = self._flat(told)
            self._types.append((kind.get(1, 0), kind.get(2, 0)))
        elif field == 2:
            self._samples.append(told)
        elif field == 3:
            mapping = self._flat(told)
            self._mappings[mapping.get(1, 0)] = mapping.get(5, 0)
        elif field == 4:
            self._locate(told)
        elif field == 5:
            function = self._flat(told)
            self._functions[function.get(1, 0)] = function.get(2, 0) or function.get(3, 0)
        elif field == 6:
            self._texts.append(told)
        elif field == 11:
            self._period_unit = self._flat(told).get(2, 0)

    def _flat(self, where: slice) -> dict[int, int]:
        """The numbers of a message."""
        return {
            field: told
            for field, told in fields(self._data, self._source, where.start, where.stop)
            if isinstance(told, int)
        }

    def _locate(self, where: slice) -> None:
        location, lines = {}, list[int]()
        for field, told in fields(self._data, self._source, where.start, where.stop):
            if isinstance(told, int):
                location[field] = told
            elif field == 4:
                lines.append(self._flat(told).get(1, 0))
        mapping = location.get(2, 0)
        self._locations[location.get(1, 0)] = [_Line(it, mapping) for it in lines] or [_Line(0, mapping)]

    def _text(self, place: int) -> str:
        """A text by its place in the table; the input is not trusted."""
        return named(self._data[self._texts[place]]) if 0 < place < len(self._texts) else ""

    def capture(self) -> Samples:
        if not self._types and not self._samples:
            raise Unparsable(self._source, 0, "not a profile: it does not describe its values")
        names = [(self._text(kind), self._text(unit)) for kind, unit in self._types] or [(_COUNTED, "count")]
        default = self._text(self._numbers.get(14, 0))
        chosen = next((place for place, (kind, _) in enumerate(names) if kind == default), len(names) - 1)
        kind, unit = names[chosen]
        factor = _NANOSECONDS.get(unit, 0)
        if not factor and (kind, unit) != (_COUNTED, "count"):
            self._gathering.note(f"the values are {kind}, in {unit or 'no unit'}, counted as samples")
        at = min(max(signed(self._numbers.get(9, 0)), 0), (1 << 63) - 1)
        left_out = 0
        for where in self._samples:
            if self._gathering.full:
                break
            try:
                left_out += not self._sample(where, chosen, factor or 1, at)
            except Unparsable as error:
                self._gathering.note(f"damaged at byte {error.line}: {error.text}")
                break
        if left_out:
            self._gathering.note(f"{left_out:,} samples with zero or negative value are left out")
        period = signed(self._numbers.get(12, 0)) * _NANOSECONDS.get(self._text(self._period_unit), 0)
        return self._gathering.capture(
            unit="nanoseconds" if factor else "samples",
            clock="unix" if at else "none",
            hz=1e9 / period if period > 0 else 0.0,
        )

    def _sample(self, where: slice, chosen: int, factor: int, at: int) -> bool:
        locations, values, labels = list[int](), list[int](), dict[str, str | int]()
        for field, told in fields(self._data, self._source, where.start, where.stop):
            if field == 1:
                locations += numbers(self._data, told, self._source)
            elif field == 2:
                values += numbers(self._data, told, self._source)
            elif field == 3 and isinstance(told, slice):
                label = self._flat(told)
                labels[self._text(label.get(1, 0))] = self._text(label[2]) if label.get(2) else label.get(3, 0)
        value = signed(values[chosen]) * factor if chosen < len(values) else 0
        if value <= 0:
            return False
        lines = [line for it in locations[:MOST_FRAMES] for line in self._locations.get(it, [_Line(0, 0)])]
        stack = self._gathering.stack([self._function(line) for line in lines[MOST_FRAMES - 1 :: -1]])
        comm = str(_label(labels, "comm") or _FALLBACK)
        pid, tid, cpu = (_whole(_label(labels, name)) for name in ("pid", "tid", "cpu"))
        who = self._gathering.who(Who(pid, comm, str(_label(labels, "cgroup") or "")))
        self._gathering.add(at=at, cpu=cpu, tid=tid, who=who, stack=stack, weight=value)
        return True

    def _function(self, line: _Line) -> int:
        if line not in self._known:
            file = self._text(self._mappings.get(line.mapping, 0))
            name = self._text(self._functions.get(line.function, 0)) or UNKNOWN
            module = kernel_module(file)
            function = Function(name, True, module) if module is not None else Function(name, False, file)
            self._known[line] = self._gathering.function(function)
        return self._known[line]


def _label(labels: dict[str, str | int], name: str) -> str | int | None:
    return next((labels[it] for it in _LABELS[name] if it in labels), None)


def _whole(told: str | int | None) -> int:
    """A number that may be written as text; -1 where there is none."""
    text = str(told)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
