"""Settle a head: what the capture appended as it came becomes the four tables of a segment.

One function for everybody: the child that runs now and then at idle priority, a reader of a recording that is not
settled yet, and a live look. So all three give the same answer. Nothing of what was recorded passes through here: each
record goes from the head to who takes its source.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from zombiescope.core import Host, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy
from zombiescope.naming.kernel_names import KernelOnce
from zombiescope.recorder import stack_series
from zombiescope.recorder.carry import Carry
from zombiescope.recorder.head import HeadReader, Record, Take
from zombiescope.recorder.layout import BUDGET_STEP, HEAD_FILE, KINDS, TROUBLE
from zombiescope.recorder.own_forks import OwnProcesses
from zombiescope.recorder.readings import ReadingRows, SettledProbes
from zombiescope.recorder.rows import timeline_of
from zombiescope.recorder.running import this_boot
from zombiescope.recorder.sample_reader import SampleReader
from zombiescope.recorder.settle_stacks import ELSEWHERE, MOST_DAMAGE, SettledStacks
from zombiescope.recorder.sources import Ring, named
from zombiescope.recorder.tasks import first_look

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Settled:
    """The tables of one head."""

    rows: ReadingRows
    stacks: SettledStacks
    carry: Carry
    damage: list[str] = field(default_factory=list)

    def timeline(self, gives: Mapping[str, Sequence[str]], *, hz: float) -> Timeline:
        """By the same reader as what is on disk. `gives`: what each probe gives."""
        samples = self.stacks.samples()

        def reader(cgroups: Mapping[int, str]) -> SampleReader | None:
            return SampleReader([samples], hz=hz, cgroups=cgroups, damage=self.damage) if samples.chunks else None

        return timeline_of(self.rows.of, gives, reader)

    def table(self, kind: str) -> pa.Table:
        from zombiescope.recorder.segment import table_of  # Arrow is for the disk, and for readers of what is there

        return table_of(kind, self.rows.of, self.stacks.samples())

    def tables(self) -> dict[str, pa.Table]:
        return {kind: self.table(kind) for kind in KINDS}


def settled(
    head: bytes | BinaryIO,
    meta: Mapping[str, Any],
    *,
    host: Host | None = None,
    why: str = ELSEWHERE,
    carry: Carry | None = None,
    kernel: KernelOnce | None = None,
) -> Settled:
    """All that is intact in a head.

    `meta` is that of its recording. `host` is asked for names only if the head is of this boot of it; without one `why`
    says the reason. `kernel`: where several heads are settled.
    """
    file = io.BytesIO(head) if isinstance(head, bytes) else head
    began, tasks, checked, boot = first_look(file)
    boot_id = boot or str(meta.get("boot_id", ""))  # of a head of before, what its recording says last
    here = host if host is not None and boot_id and this_boot(host) == boot_id else None
    hz = float(meta.get("hz") or 0)
    rows = ReadingRows(_events(meta))
    ours = OwnProcesses(rows.add)
    probes = SettledProbes(rows, meta.get("gives", {}), ours)
    with ExitStack() as stack:
        before = (carry or Carry()).before(began, boot_id)
        machine = (here, why or ELSEWHERE, (kernel or KernelOnce()).of(boot_id))
        stacks = stack.enter_context(SettledStacks(machine, rows, ours, before, tasks, hz))
        del tasks  # 10 MB on a node that starts many processes
        reader = HeadReader(file, checked)
        reader.deliver(_Takers(probes, stacks, hz).of)
        probes.finish()
        left = stacks.finish()
    damage = [*probes.damage, *stacks.damage]
    for what, count in rows.left_out.most_common(MOST_DAMAGE):
        damage.append(f"{count:,} readings of {what} were left out: too many for one segment")
    if reader.damage:
        damage.append(f"damaged after {reader.end:,} bytes: {reader.damage}")
    for trouble in damage:  # so that it is known when the head is not there any more
        rows.row("events", reader.at, TROUBLE, "node", 1.0, HEAD_FILE, harmless(trouble))
    rows.begin()  # what was written last of each is not asked for any more
    return Settled(rows, stacks, left, damage)


def readings_of(file: BinaryIO, meta: Mapping[str, Any], probes: Set[str]) -> ReadingRows:
    """What some probes read, of a head whose samples nobody asks for."""
    rows = ReadingRows(_events(meta))
    settled_probes = SettledProbes(rows, meta.get("gives", {}))

    def taker(name: memoryview) -> Take | None:
        source = named(name, 0.0)
        return partial(settled_probes.take, source) if isinstance(source, str) and source in probes else None

    HeadReader(file).deliver(taker)
    settled_probes.finish()
    return rows


class _Takers:
    """Who takes the records of a source."""

    def __init__(self, probes: SettledProbes, stacks: SettledStacks, hz: float) -> None:
        self._probes, self._stacks, self._hz = probes, stacks, hz
        self._sampled = False  # there are rings

    def of(self, name: memoryview) -> Take | None:
        source = named(name, self._hz)
        if isinstance(source, Ring):
            self._sampled = True
            return partial(self._stacks.take, source)
        if source == stack_series.NAME:
            return self._rings_read
        return partial(self._probes.take, source) if source else None

    def _rings_read(self, record: Record, ahead: int | None) -> None:
        """Whether or not there was anything in them; and what the capture could not see."""
        if ahead is None or not self._sampled:
            self._probes.take(stack_series.NAME, record, ahead)
        elif (said := self._probes.sample(stack_series.NAME, record, ahead)) is not None:
            self._stacks.look(record.at, ahead, said[1])


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
