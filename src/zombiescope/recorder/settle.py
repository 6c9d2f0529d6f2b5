"""Settle a head: what the capture appended as it came becomes the four tables of a segment.

One function for everybody: the child that runs now and then at idle priority, a reader of a recording that is not
settled yet, and a live look. So all three give the same answer.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from zombiescope.core import Host, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy
from zombiescope.recorder import stack_series
from zombiescope.recorder.carry import Carry
from zombiescope.recorder.clock import seconds
from zombiescope.recorder.head import CLOCK, FETCHED, LOST, NAME, RING, SAME, SAMPLE, HeadReader, Record
from zombiescope.recorder.layout import BUDGET_STEP, HEAD_FILE, KINDS, TROUBLE
from zombiescope.recorder.reading_rows import ReadingRows
from zombiescope.recorder.rows import Rows, joined, timeline_of
from zombiescope.recorder.running import this_boot
from zombiescope.recorder.sample_reader import SampleReader
from zombiescope.recorder.settle_probes import LATEST, SettledProbes
from zombiescope.recorder.settle_stacks import BATCH_BYTES, Ring, SettledStacks
from zombiescope.recorder.tasks import Tasks

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 50_000  # rows that are held as Python's objects, about 10 MB
_CORES = 65_536
_LONGEST_NAME = 4096  # bytes in which a source is described; ours have 100


@dataclass(slots=True)
class Settled:
    """The tables of one head."""

    readings: dict[str, list[Rows]]
    stacks: SettledStacks
    carry: Carry
    damage: list[str] = field(default_factory=list)

    def timeline(self, gives: Mapping[str, Sequence[str]], *, hz: float) -> Timeline:
        """By the same reader as what is on disk. `gives`: what each probe gives."""
        samples = self.stacks.samples()

        def reader(cgroups: Mapping[int, str]) -> SampleReader | None:
            return SampleReader([samples], hz=hz, cgroups=cgroups, damage=self.damage) if samples.chunks else None

        return timeline_of({kind: joined(self.readings[kind]) for kind in ("series", "events")}, gives, reader)

    def table(self, kind: str) -> pa.Table:
        from zombiescope.recorder.segment import table_of  # Arrow is for the disk, and for readers of what is there

        return table_of(kind, self.readings.get(kind, ()), self.stacks.samples())

    def tables(self) -> dict[str, pa.Table]:
        return {kind: self.table(kind) for kind in KINDS}


def settled(
    head: bytes | BinaryIO, meta: Mapping[str, Any], *, host: Host | None = None, carry: Carry | None = None
) -> Settled:
    """All that is intact in a head.

    `meta` is that of its recording. `host` is asked for names only if the head is of this boot of it.
    """
    with _Settling(io.BytesIO(head) if isinstance(head, bytes) else head, meta, host, carry or Carry()) as settling:
        return settling.run()


class _Settling:
    def __init__(self, file: BinaryIO, meta: Mapping[str, Any], host: Host | None, carry: Carry) -> None:
        self._file = file
        boot_id = str(meta.get("boot_id", ""))
        here = host if host is not None and boot_id and this_boot(host) == boot_id else None
        self._hz = float(meta.get("hz") or 0)
        self._rows = ReadingRows(_events(meta))
        gives = meta.get("gives", {})
        self._probes = SettledProbes(self._rows, gives)
        began, tasks, self._checked = _first_look(file)
        self._stacks = SettledStacks(here, self._rows, carry.before(began, boot_id), tasks, self._hz)
        self._sources: dict[int, Ring | str] = {}
        self._ahead: int | None = None
        self._at = 0.0  # of the last record
        self._sampled = False  # there are rings
        self._kept: dict[str, list[Rows]] = {"series": [], "events": []}

    def __enter__(self) -> _Settling:
        return self

    def __exit__(self, *_: object) -> None:
        self._stacks.__exit__()

    def run(self) -> Settled:
        reader = HeadReader(self._file, self._checked)
        for record in reader:
            self._take(record)
            if self._rows.waiting > ROWS_AT_ONCE:
                self._keep()
        self._probes.finish()
        carry = self._stacks.finish()
        damage = [*self._probes.damage, *self._stacks.damage]
        if self._rows.left_out:
            damage.append(f"{self._rows.left_out:,} readings were left out: too many for one segment")
        if reader.damage:
            damage.append(f"damaged after {reader.end:,} bytes: {reader.damage}")
        for trouble in damage:  # so that it is known when the head is not there any more
            self._rows.row("events", self._at, TROUBLE, "node", 1.0, HEAD_FILE, harmless(trouble))
        self._keep()
        return Settled(self._kept, self._stacks, carry, damage)

    def _keep(self) -> None:
        for kind, rows in self._rows.taken():
            self._kept[kind].append(rows)

    def _take(self, record: Record) -> None:
        if record.kind == CLOCK:
            if len(record.content) == 8:
                self._ahead = struct.unpack("<q", record.content)[0]
            return
        if record.kind == NAME:
            found = self._sources[record.source] = _source(record.content, self._hz)
            self._sampled |= isinstance(found, Ring)
            return
        if self._ahead is not None and 0 <= record.at + self._ahead < LATEST * 1e9:
            self._at = seconds(record.at + self._ahead)
        source = self._sources.get(record.source, "")
        if isinstance(source, Ring):
            if record.kind == RING and self._ahead is not None and record.at < 1 << 62:
                self._stacks.ring(source, record.at, self._ahead, record.content)
            elif record.kind == LOST and len(record.content) == 8:
                self._stacks.lost(source, struct.unpack("<Q", record.content)[0])
            return
        if not source:
            return
        if record.kind in (FETCHED, SAME) and self._ahead is not None:
            at = seconds(record.at + self._ahead)
            self._probes.fetched(source, at, bytes(record.content) if record.kind == FETCHED else None)
        elif record.kind == SAMPLE:
            said = self._probes.sample(source, record.content)
            if said is not None:
                at, blind = said
                if source == stack_series.NAME and self._ahead is not None and self._sampled:
                    self._stacks.look(record.at, self._ahead, blind)
                else:
                    self._probes.look(source, at, blind)


def _source(content: memoryview, hz: float) -> Ring | str:
    """What a NAME record says; nothing that is known, if it is anything else."""
    try:
        said = json.loads(bytes(content[:_LONGEST_NAME]))
    except (ValueError, RecursionError):
        return ""
    if not isinstance(said, dict):
        return ""
    probe = said.get("probe")
    if isinstance(probe, str):
        return probe
    cpu, rate, event = said.get("ring", said.get("side")), said.get("hz", hz), said.get("event", "cpu-clock")
    if isinstance(cpu, int) and 0 <= cpu < _CORES and isinstance(rate, int | float) and isinstance(event, str):
        share = said.get("share", 1.0)
        counted = float(min(max(share, 0.0), 1.0)) if isinstance(share, int | float) else 1.0
        return Ring(cpu, event, float(min(max(rate, 0), 1e6)), bool(said.get("cgroup", True)), "side" in said, counted)
    return ""


def _first_look(file: BinaryIO) -> tuple[int, Tasks, int]:
    """When the rings were first read, what became of the processes until the end, and how many bytes are intact."""
    began, tasks, rings = 0, Tasks(), set[int]()
    waiting: list[bytes] = []
    size = 0
    reader = HeadReader(file)
    for record in reader:
        if record.kind == NAME and isinstance(_source(record.content, 0.0), Ring):
            rings.add(record.source)
        elif record.kind == RING and record.source in rings:
            began = began or record.at
            waiting.append(bytes(record.content))
            size += len(record.content)
            if size > BATCH_BYTES:
                tasks.feed(waiting)
                waiting, size = [], 0
                if tasks.too_many:
                    break
    tasks.feed(waiting)
    return began, tasks, reader.end


def _events(meta: Mapping[str, Any]) -> set[str]:
    """What is an event and not a value that holds: each one is kept."""
    said = meta.get("events")
    if not isinstance(said, list | tuple):  # to load every probe takes 0.3 s
        said = [what for probe in healthy("probes").values() for what in getattr(probe, "EVENTS", ())]
    return {*(it for it in said if isinstance(it, str)), *stack_series.EVENTS, TROUBLE, BUDGET_STEP}


if __name__ == "__main__":
    import sys

    from zombiescope.recorder.settle_segment import main

    raise SystemExit(main(sys.argv[1:]))
