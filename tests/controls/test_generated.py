"""The columns of generated nodes are what the probes themselves read of the kernel's text."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.controls.generated import Node
from tests.controls.loads import CONTROLS
from tests.controls.texts import texts
from tests.files import node_of

from zombiescope.probes import pressure, proc_stat, softirqs, softnet_stat, thread_delay, vmstat
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape

PROBES: dict[ModuleType, int] = {proc_stat: 1, softirqs: 2, softnet_stat: 2, vmstat: 2, pressure: 2}


@pytest.mark.parametrize(
    ("name", "cores", "seconds"), [("ci_builder", 12, 8), ("gateway", 192, 4), ("just_booted", 64, 4)]
)
def test_the_columns_are_what_the_probes_read(tmp_path: Path, name: str, cores: int, seconds: int) -> None:
    node = Node(cores=cores, seconds=seconds, seed=1)
    CONTROLS[name][1](node)
    columns, tape = node.timeline(), Tape()
    for pace in (1, 2):
        for place, at in enumerate(node.times[pace]):
            files = {path[1:]: text for path, text in texts(node, pace, place).items() if path.startswith("/")}
            host = node_of(tmp_path / f"{pace}-{place}", {"at": str(at)} | files)
            for probe, its_pace in PROBES.items():
                if its_pace == pace:
                    look(host, probe.__name__.rpartition(".")[2], probe, tape)
    read, compared = tape.timeline(), 0
    for probe, pace in PROBES.items():
        for what in (it for it in probe.GIVES if it in node.columns):
            assert read.subjects(what) == columns.subjects(what)
            for subject in read.subjects(what):
                mine, theirs = (it.series(what, subject).sampled(node.times[pace]) for it in (columns, read))
                assert mine == pytest.approx(theirs), (what, subject)
                compared += 1
    assert compared > 20 * cores
    for subject, line in texts(node, 1, seconds).items():
        if subject.startswith("thread:"):
            ran = [columns.series(f"thread_{it}_seconds_total", subject).values[-1] for it in ("run", "run_delay")]
            assert thread_delay.parse(line) == pytest.approx(tuple(ran))
