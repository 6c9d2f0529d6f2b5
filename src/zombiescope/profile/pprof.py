"""Read pprof, the profiles that Go, Parca, Pyroscope and others write: one message of protocol buffers, uncompressed.

The format: google/pprof, proto/profile.proto. Its fields may come in any order: Go's runtime begins with the time or
the period, others with mappings or with texts. Of several kinds of values one is shown (pprof_values). Labels, if
present, give process, thread and core; as text or as numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile.gathering import MOST_SAMPLES, Gathering, named
from zombiescope.profile.kernel_files import UNKNOWN, kernel_module
from zombiescope.profile.pprof_values import COUNTED, NANOSECONDS, Kind, Values
from zombiescope.profile.wire import fields, numbers, parts, signed

LARGEST_FILE = 1 << 29  # bytes, unpacked: 512 MB. Whole days of a busy service are some 20 MB
MOST_FRAMES = 10_000  # in one stack: deeper ones are cut, at their outer end
_ENOUGH = 8  # valid fields: after them damage is damage, and no sign of another format
# What a field may be: a number, or bytes; of a message what may be in it, as (field, whether it is a number).
_NUMBERS = {7, 8, 9, 10, 12, 13, 14, 15}
_ID, _NUMBERED = (1, True), (3, 4, 5)  # mappings, locations and functions have an id
_VALUE_TYPE = {(1, True), (2, True)}
_MESSAGES: dict[int, set[tuple[int, bool]]] = {
    1: _VALUE_TYPE,
    2: {(1, True), (1, False), (2, True), (2, False), (3, False)},
    3: {(field, True) for field in range(1, 11)},
    4: {(1, True), (2, True), (3, True), (4, False), (5, True)},
    5: {(field, True) for field in range(1, 6)},
    6: set(),  # a text
    11: _VALUE_TYPE,
    13: set(),  # comments, packed
}
# The first of these labels that a sample has; perf_to_profile, Parca, Pyroscope, Datadog and ours differ.
_LABELS = {
    "cpu": ("cpu", "cpu.logical_number"),
    "pid": ("pid", "process_id", "process id"),
    "tid": ("tid", "thread_id", "thread id"),
    "comm": ("comm", "thread_comm", "thread", "thread_name", "thread name"),
    "cgroup": ("cgroup", "container", "container_id"),
}
_MOST_KEPT = 200_000  # stacks, labels and values known by their bytes
_FALLBACK = "[all]"  # the process, if unknown


class _Line(NamedTuple):
    function: int
    mapping: int


def parse(pieces: Iterable[bytes], source: str = "pprof", value: str | None = None) -> Samples:
    """Parse the samples of a profile in pieces of any size; `value` names the kind of value to show."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST_FILE:
            raise Unparsable(source, LARGEST_FILE, "too large for a profile")
    return _Profile(bytes(data), source).capture(value)


def looks_like(beginning: bytes) -> bool:
    """Whether a file with this beginning is a profile: fields in any order, each of the kind that the format says.

    Text may pass for a field or two, so one that only messages of a profile have must be among them.
    """
    good, telling, at = 0, False, 0
    try:
        for field, told in fields(beginning, ""):
            numeric = isinstance(told, int)
            if field not in (_NUMBERS if numeric else _MESSAGES):
                return False
            if isinstance(told, slice) and (inner := _MESSAGES[field]):
                at = told.start
                kinds = [(it, isinstance(value, int)) for it, value in fields(beginning, "", told.start, told.stop)]
                if not all(it in inner for it in kinds):
                    return telling and good >= _ENOUGH
                telling = telling or _ID in kinds or (bool(kinds) and field not in _NUMBERED)
            good += 1
    except Unparsable as error:
        # The beginning is only a part of the file, so its last field may be cut off. Any other damage comes late.
        return telling and (good >= _ENOUGH or (error.line >= at and "bytes, " in error.text))
    return telling


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
        self._stacks: dict[bytes, int] = {}  # by the numbers of their places, as written
        self._whos: dict[bytes, tuple[int, int, int]] = {}  # by labels, as written
        self._amounts: dict[bytes, list[int]] = {}  # by values, as written
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
        return self._flat_of(self._data, where)

    def _flat_of(self, data: bytes, where: slice) -> dict[int, int]:
        told = fields(data, self._source, where.start, where.stop)
        return {field: number for field, number in told if isinstance(number, int)}

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

    def capture(self, wanted: str | None) -> Samples:
        if not self._types and not self._samples:
            raise Unparsable(self._source, 0, "not a profile: it does not describe its values")
        values = Values([Kind(self._text(kind), self._text(unit)) for kind, unit in self._types], self._source)
        rows = list(self._rows(values))
        chosen = values.chosen(wanted, self._text(self._numbers.get(14, 0)))
        kind = values.kinds[chosen]
        if not kind.factor and kind != (COUNTED, "count"):
            self._gathering.note(f"the values are {kind}, counted as samples")
        at = min(max(signed(self._numbers.get(9, 0)), 0), (1 << 63) - 1)
        left_out = 0
        for (stack, who, tid, cpu), value in zip(rows, values.column(chosen), strict=True):
            if value > 0:
                weight = value * (kind.factor or 1)
                self._gathering.add(at=at, cpu=cpu, tid=tid, who=who, stack=stack, weight=weight)
            left_out += value < 0
        if left_out:
            self._gathering.note(
                f"{left_out:,} samples with a negative value are left out: a difference of two profiles"
            )
        period = signed(self._numbers.get(12, 0)) * NANOSECONDS.get(self._text(self._period_unit), 0)
        return self._gathering.capture(
            unit="nanoseconds" if kind.factor else "samples",
            clock="unix" if at else "none",
            hz=1e9 / period if period > 0 else 0.0,
            origin=values.origin(chosen, self._producer()),
        )

    def _producer(self) -> str:
        """Profiles do not name who wrote them; the functions of Go's own runtime do."""
        return "Go" if any(self._text(name).startswith("runtime.") for name in self._functions.values()) else ""

    def _rows(self, values: Values) -> Iterator[tuple[int, int, int, int]]:
        """Stack, process, thread and core of each sample; its values are put aside."""
        for where in self._samples[:MOST_SAMPLES]:
            if self._gathering.full:
                return
            try:
                yield self._row(where, values)
            except Unparsable as error:
                self._gathering.note(f"damaged at byte {error.line}: {error.text}")
                return

    def _row(self, where: slice, values: Values) -> tuple[int, int, int, int]:
        """Stacks, labels and values come again and again, so each is looked up by its bytes first."""
        found = parts(self._data, where.start, where.stop)
        if found is None:
            return self._odd_row(where, values)
        places, amounts, told = found
        stack = self._stacks.get(places)
        if stack is None:
            whole = list(numbers(places, slice(0, len(places)), self._source))
            stack = self._stacks[places] = self._stack(whole)
        who = self._whos.get(told)
        if who is None:
            who = self._whos[told] = self._labelled(
                [self._flat_of(told, it) for _, it in fields(told, self._source) if isinstance(it, slice)]
            )
        row = self._amounts.get(amounts)
        if row is None:
            row = [signed(it) for it in numbers(amounts, slice(0, len(amounts)), self._source)]
            if len(self._amounts) < _MOST_KEPT:
                self._amounts[amounts] = row
        values.add(row)
        if len(self._stacks) > _MOST_KEPT or len(self._whos) > _MOST_KEPT:
            self._stacks.clear()
            self._whos.clear()
        return stack, *who

    def _odd_row(self, where: slice, values: Values) -> tuple[int, int, int, int]:
        """The same for a sample that is written in an unusual way: numbers one by one, unknown fields."""
        locations, its_values, labels = list[int](), list[int](), list[dict[int, int]]()
        for field, told in fields(self._data, self._source, where.start, where.stop):
            if field == 1:
                locations += numbers(self._data, told, self._source)
            elif field == 2:
                its_values += numbers(self._data, told, self._source)
            elif field == 3 and isinstance(told, slice):
                labels.append(self._flat(told))
        row = self._stack(locations), *self._labelled(labels)
        values.add([signed(it) for it in its_values])
        return row

    def _stack(self, locations: list[int]) -> int:
        lines = [line for it in locations[:MOST_FRAMES] for line in self._locations.get(it, [_Line(0, 0)])]
        return self._gathering.stack([self._function(line) for line in lines[MOST_FRAMES - 1 :: -1]])

    def _labelled(self, told: list[dict[int, int]]) -> tuple[int, int, int]:
        """Process, thread and core, as labels give them."""
        labels: dict[str, str | int] = {}
        for label in told:
            labels[self._text(label.get(1, 0))] = self._text(label[2]) if label.get(2) else label.get(3, 0)
        comm = str(_label(labels, "comm") or _FALLBACK)
        pid, tid, cpu = (_whole(_label(labels, name)) for name in ("pid", "tid", "cpu"))
        return self._gathering.who(Who(pid, comm, str(_label(labels, "cgroup") or ""))), tid, cpu

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
