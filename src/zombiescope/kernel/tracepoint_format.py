"""The `format` file of a tracepoint: which fields a record has, where, and the names of numbered things.

Kernel: Documentation/trace/events.rst. Field offsets differ between kernels, so they are read, never assumed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.core.host import Host
from zombiescope.kernel.private_mount import USUAL, mounted

_LARGEST = 1 << 16  # bytes: sched_switch has 2,000
# 	field:unsigned int vec;	offset:8;	size:4;	signed:0;
_FIELD = re.compile(
    r"\tfield:(?P<type>[^;]*?)(?P<name>\w+)(?:\[\w*\])?;\toffset:(?P<offset>\d{1,5});\tsize:(?P<size>\d{1,5});"
)
_SYMBOL = re.compile(r'\{ (\d{1,4}), "(\w{1,32})" \}')  # { 3, "NET_RX" }


class Field(NamedTuple):
    """Where a field is in a record; `elsewhere`: it only says where (its offset in the low 16 bits)."""

    offset: int
    size: int
    elsewhere: bool = False


class Format(NamedTuple):
    """One tracepoint's record, without the fields that all of them have (common_…)."""

    source: str
    id: int
    fields: dict[str, Field]
    symbols: dict[int, str]  # names that its print format has for numbers

    def field(self, name: str, size: int) -> Field:
        """A field that must be there, and of that size."""
        found = self.fields.get(name)
        if found is None or found.size != size:
            has = ", ".join(f"{it} ({one.size})" for it, one in self.fields.items()) or "none"
            raise Unreadable(self.source, f"no field {name} of {size} bytes; its fields are: {has}")
        return found

    def only_argument(self, name: str) -> None:
        """Its record has that one field: then that is the one argument of the raw tracepoint, too."""
        self.field(name, 4)
        if len(self.fields) != 1:
            raise Unreadable(self.source, f"has other fields than {name}: {', '.join(self.fields)}")


def load(host: Host, *tracepoints: str) -> list[Format]:
    """The formats of tracepoints, such as "irq/softirq_raise"; from a private mount where tracefs is not mounted."""
    with mounted("tracefs", host) as tracefs:
        return [_load(tracefs, it) for it in tracepoints]


def _load(tracefs: str, tracepoint: str) -> Format:
    source = f"{USUAL['tracefs'][0]}/events/{tracepoint}/format"
    try:
        with open(f"{tracefs}/events/{tracepoint}/format", "rb") as file:
            text = file.read(_LARGEST).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        raise Unreadable(source, "this kernel has no such tracepoint") from None
    except OSError as error:
        raise Unreadable(source, (error.strerror or str(error)).lower()) from None
    return parse(text, source)


def parse(text: str, source: str) -> Format:
    """Names, offsets and sizes."""
    number = re.search(r"^ID: (\d{1,6})$", text, re.MULTILINE)
    if number is None:
        raise Unparsable(source, 1, text[:200])
    fields = {}
    for line, row in enumerate(text.split("\n"), 1):
        if not row.startswith("\tfield:"):
            continue
        found = _FIELD.match(row)
        if found is None:
            raise Unparsable(source, line, row[:200])
        if not found["name"].startswith("common_"):
            elsewhere = found["type"].startswith("__data_loc ")
            fields[found["name"]] = Field(int(found["offset"]), int(found["size"]), elsewhere)
    symbols = {int(value): name for value, name in _SYMBOL.findall(text.partition("\nprint fmt:")[2])}
    return Format(source, int(number[1]), fields, symbols)
