"""The numbers that we read out of node_exporter's own test data are those that its authors expect."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from zombiescope.core import Host
from zombiescope.members.rooms import load
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape

VARIABLE = "ZOMBIESCOPE_EXTERNAL_DATA"
PROJECT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get(VARIABLE, PROJECT.parent / "shared" / "data")) / "nodes" / "node_exporter"
_SERIES = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")

# Theirs: our probe, our name, our subject, and how many series they list. {braces} take their labels.
FAMILIES = {
    "node_cgroups_cgroups": ("proc_cgroups", "cgroups_known", "controller:{subsys_name}", 12),
    "node_cgroups_enabled": ("proc_cgroups", "cgroup_controller_enabled", "controller:{subsys_name}", 12),
    "node_cpu_seconds_total": ("proc_stat", "cpu_{mode}_seconds_total", "cpu:{cpu}", 64),
    "node_memory_Slab_bytes": ("meminfo", "memory_slab_bytes", "node", 1),
    "node_memory_SUnreclaim_bytes": ("meminfo", "memory_slab_unreclaimable_bytes", "node", 1),
    "node_softirqs_functions_total": ("softirqs", "softirqs_{type}_total", "cpu:{cpu}", 20),
    **{
        f"node_softnet_{theirs}": ("softnet_stat", f"softnet_{ours}", "cpu:{cpu}", 4)
        for theirs, ours in (
            ("processed_total", "processed_total"),
            ("dropped_total", "dropped_total"),
            ("times_squeezed_total", "squeezed_total"),
            ("cpu_collision_total", "collision_total"),
            ("received_rps_total", "received_rps_total"),
            ("flow_limit_count_total", "flow_limit_total"),
            ("backlog_len", "backlog_packets"),
        )
    },
    **{
        f"node_{what}": ("pressure", what, "node", 1)
        for what in (
            "pressure_cpu_waiting_seconds_total",
            "pressure_io_waiting_seconds_total",
            "pressure_io_stalled_seconds_total",
            "pressure_memory_waiting_seconds_total",
            "pressure_memory_stalled_seconds_total",
            "pressure_irq_stalled_seconds_total",
        )
    },
    **{
        f"node_vmstat_{name}": ("vmstat", f"vmstat_{name}_total", "node", 1)
        for name in ("oom_kill", "pgfault", "pgmajfault", "pgpgin", "pgpgout", "pswpin", "pswpout")
    },
}
# They list these too, from files or lines that we do not read.
OTHERS = {
    "node_interrupts_total",
    "node_schedstat_running_seconds_total",
    "node_schedstat_timeslices_total",
    "node_schedstat_waiting_seconds_total",
    "node_softirqs_total",
}
# These kernel lines have eleven columns. They say nought for a backlog that is not there; we say nothing.
ABSENT = {"node_softnet_backlog_len"}


def expected() -> dict[str, list[tuple[dict[str, str], float]]]:
    if not DATA.is_dir():
        pytest.skip(f"no {DATA.name} test data: set {VARIABLE} to the folder that holds nodes/{DATA.name}")
    families: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in (DATA / "expected.txt").read_text().splitlines():
        match = _SERIES.fullmatch(line)
        assert match, line
        labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"] or ""))
        families.setdefault(match["name"], []).append((labels, float(match["value"])))
    return families


def test_every_family_that_they_list_is_compared_or_not_ours() -> None:
    assert set(expected()) == set(FAMILIES) | OTHERS


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_numbers(family: str) -> None:
    series = expected()[family]
    name, what, subject, count = FAMILIES[family]
    tape = Tape()
    look(Host(str(DATA), live=False), name, load("probes", name), tape)
    timeline = tape.timeline()
    compared = 0
    for labels, value in series:
        ours = timeline.series(
            what.format(**{key: text.lower() for key, text in labels.items()}), subject.format(**labels)
        )
        if family in ABSENT:
            assert value == 0 and not len(ours)
        else:
            assert ours.latest.value == pytest.approx(value, rel=1e-12)
        compared += 1
    assert compared == count
    if family in ABSENT:
        assert timeline.looks(what).latest.text.startswith("this kernel's lines have no column")
