"""/proc/pressure/*: time in which some or all tasks waited for CPU, memory, IO or interrupts (PSI).

Overhead: four reads of 100 bytes, 15 µs each.
Kernel: Documentation/accounting/psi.rst; since eb414681d5a0 (in v4.20). `full` of cpu means nothing at node level and
    is always 0; `irq` since 52b1364ba0b1 (in v6.1, with CONFIG_IRQ_TIME_ACCOUNTING) and has only `full`. A kernel
    booted with psi=0 answers "operation not supported".
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import Samples, reading, text_of, unpacked
from zombiescope.kernel.text import count, lines

EVERY = 2.0
_KINDS = {"cpu": ("some",), "io": ("some", "full"), "memory": ("some", "full"), "irq": ("full",)}
_WORDS = {"some": "waiting", "full": "stalled"}  # as node_exporter spells them
GIVES = tuple(f"pressure_{kind}_{_WORDS[row]}_seconds_total" for kind, rows in _KINDS.items() for row in rows)
FILES = tuple(f"/proc/pressure/{kind}" for kind in _KINDS)
CURVES = (
    ("CPU pressure", "share", "pressure_cpu_waiting_seconds_total", "most"),
    ("memory pressure", "share", "pressure_memory_waiting_seconds_total", "most"),
    ("I/O pressure", "share", "pressure_io_waiting_seconds_total", "most"),
)


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, content in samples:
        yield from _sample(at, *unpacked(content, FILES))


read = reading(FILES, readings)


def _sample(at: float, *parts: bytes | Unreadable) -> Iterator[Reading | Blind]:
    unseen: list[Blind] = []
    for (kind, rows), source, part in zip(_KINDS.items(), FILES, parts, strict=True):
        whats = {row: f"pressure_{kind}_{_WORDS[row]}_seconds_total" for row in rows}
        if isinstance(part, Unreadable):
            unseen.extend(Blind(what=what, source=source, why=part.why) for what in whats.values())
            continue
        seconds = parse(text_of(part), source)
        for row, what in whats.items():
            if row not in seconds:
                raise Unparsable(source, 1, f"no row {row}")
            yield Reading(what=what, subject="node", value=seconds[row], at=at, source=source)
    if len(unseen) == len(GIVES):
        raise Unreadable("/proc/pressure", unseen[0].why)
    yield from unseen


# some avg10=0.18 avg60=0.34 avg300=0.10 total=159886802
# full avg10=0.18 avg60=0.34 avg300=0.10 total=159229614
def parse(text: str, source: str = "/proc/pressure") -> dict[str, float]:
    """Seconds waited, by row. The kernel's averages are not used: ours cover the time that is diagnosed."""
    seconds = {}
    for number, line in enumerate(lines(text), 1):
        row, _, fields = line.partition(" ")
        try:
            seconds[row] = count(fields.rpartition("total=")[2]) / 1e6
        except ValueError:
            raise Unparsable(source, number, line) from None
    return seconds
