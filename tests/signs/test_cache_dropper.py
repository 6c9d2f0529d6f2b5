"""cache_dropper: who dropped the caches, noted; accused where tasks then waited for their files."""

from __future__ import annotations

from tests.nodes import node, read

from zombiescope.core import Case, Finding, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import cache_dropper_to_disk_stall, cache_dropper_to_page_fault_storm
from zombiescope.signs import cache_dropper

LOOKS = [2.0 * it for it in range(16)]


def drops(at: float, times: int = 1, *, read_in: float = 0.0) -> list[Reading]:
    found = [read("vmstat_drop_pagecache_total", "node", 7 + times * (look >= at), look) for look in LOOKS]
    return [*found, *(read("vmstat_pgpgin_total", "node", read_in * max(look - at, 0.0), look) for look in LOOKS)]


def waits(at: float, before: float, after: float) -> list[Reading]:
    spent = [before * min(look, at) + after * max(look - at, 0.0) for look in LOOKS]
    what = "pressure_io_waiting_seconds_total"
    return [read(what, "node", value, look) for look, value in zip(LOOKS, spent, strict=True)]


LINE = read("kernel_log", "node", 6, 10.0, "cron-free (812): drop_caches: 3")


def case(*readings: Reading) -> Case:
    return examine(node(readings), signs={"cache_dropper": cache_dropper}, laws={})


def test_the_one_who_dropped_them_is_named_and_accused_if_tasks_waited() -> None:
    (found,) = case(*drops(10.0, read_in=20_000.0), *waits(10.0, 0.0, 0.4), LINE).root_causes
    assert found.subject == found.culprit == "process:cron-free[812]"
    assert found.says.startswith("dropped the page cache once, and ") and "waited for I/O" in found.says


def test_without_the_log_it_is_the_node_and_without_harm_it_is_noted() -> None:
    (noted,) = case(*drops(10.0, times=3), *waits(10.0, 0.0, 0.0)).noted
    assert noted.subject == "node" and noted.says.startswith("dropped the page cache 3 times")
    (as_before,) = case(*drops(10.0), *waits(10.0, 0.3, 0.3), LINE).noted
    assert as_before.subject == "process:cron-free[812]"


def test_drops_before_the_recording_are_nothing() -> None:
    result = case(*drops(-1.0), *waits(0.0, 0.0, 0.0))
    assert not result.findings and result.verdicts[0].says.endswith("since boot: 8") and result.verdicts[0].evidence


def test_what_follows() -> None:
    timeline = node([*drops(10.0, read_in=20_000.0), LINE])
    (cause,) = case(*drops(10.0, read_in=20_000.0), LINE).findings

    def effect(subject: str, says: str) -> Finding:
        return Finding(subject=subject, span=cause.span, says=says, evidence=(read("x", subject, 1, 10),))

    major = effect("node", "had 300 major faults a second")
    assert list(cache_dropper_to_page_fault_storm.grounds(cause, major, timeline))
    minor = effect("node", "had 90,000 page faults a second")
    assert not list(cache_dropper_to_page_fault_storm.grounds(cause, minor, timeline))
    disk = effect("disk:sda", "took 300 ms for a request")
    assert [it.kind for it in cache_dropper_to_disk_stall.grounds(cause, disk, timeline)] == ["dose"]
    steady = node([*drops(10.0), *(read("vmstat_pgpgin_total", "node", 9e3 * it, it) for it in LOOKS)])
    assert not list(cache_dropper_to_disk_stall.grounds(cause, disk, steady))
