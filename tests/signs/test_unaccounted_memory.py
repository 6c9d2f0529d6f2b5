"""unaccounted_memory: noted while there is memory, accused where it is short; silent on an ordinary node."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.conftest import PROJECT
from tests.nodes import T0, node, read

from zombiescope.core import Blind, Case, Finding, Reading, Span
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import unaccounted_memory_to_direct_reclaim, unaccounted_memory_to_oom_kill
from zombiescope.probes import meminfo
from zombiescope.signs import unaccounted_memory

TOTAL = 24e9
QUIET = (PROJECT / "src/zombiescope/conformance/quiet/proc/meminfo").read_text()


def memory(*missing: float, available: float = 20e9) -> list[Reading]:
    return [
        reading
        for place, value in enumerate(missing)
        for reading in (
            read("memory_unaccounted_bytes", "node", value, place * 5.0),
            read("memory_total_bytes", "node", TOTAL, place * 5.0),
            read("memory_available_bytes", "node", available, place * 5.0),
        )
    ]


def case(*readings: Reading) -> Case:
    return examine(node(readings), signs={"unaccounted_memory": unaccounted_memory}, laws={})


def test_a_large_part_is_noted_while_memory_is_left_and_accused_when_it_is_short() -> None:
    (noted,) = case(*memory(6e9, 6e9)).noted
    assert noted.says == "has 6.0 GB of memory in use that nothing accounts for, 25 % of all"
    (accused,) = case(*memory(6e9, 6e9, available=1e9)).root_causes
    assert accused.says.endswith("; only 4 % of memory is available") and accused.harm.held_bytes == 6e9


def test_a_leak_that_grows_says_by_how_much_and_when_memory_ends() -> None:
    (found,) = case(*memory(1e9, 2e9, 3e9, available=1e9)).root_causes
    assert "2.0 GB more than 10.0 s before" in found.says and found.harm.soon_seconds == pytest.approx(5.0)


@pytest.mark.parametrize(
    "readings",
    [memory(8e7, 9e7), memory(2e9, 2e9), memory(1e9, 4e9, 1.1e9), memory(2e9, 2e9, available=1e9)],
    ids=["an idle node", "network cards", "a job's buffers came and went", "short of memory, but not by this"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(*readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_compressed_swap_is_accounted_for() -> None:
    zram = [read("memory_compressed_pages", "node", 6e9 / 4096, at) for at in (0.0, 5.0)]
    assert not case(*memory(6e9, 6e9, available=1e9), *zram).findings


def gone(text: str) -> float:
    (found,) = [it for it in meminfo.readings([(T0, text.encode())]) if it.what == "memory_unaccounted_bytes"]
    assert isinstance(found, Reading)
    return found.value


def test_what_no_line_counts_is_what_is_left_of_all() -> None:
    assert gone(QUIET) < 0.01 * 24682416 * 1024
    taken = QUIET.replace("MemFree:        24459232 kB", "MemFree:        22459232 kB")
    assert gone(taken) == gone(QUIET) + 2_000_000 * 1024


def test_huge_pages_of_a_kernel_without_their_sum() -> None:
    lines = [it for it in QUIET.splitlines() if not it.startswith("Hugetlb")]
    text = "\n".join(lines).replace("HugePages_Total:       0", "HugePages_Total:    1000")
    less = text.replace("MemFree:        24459232 kB", "MemFree:        22411232 kB")
    assert gone(less) == gone(QUIET)


def test_an_old_kernel_is_blind() -> None:
    text = "\n".join(it for it in QUIET.splitlines() if not it.startswith("AnonPages"))
    (found,) = [it for it in meminfo.readings([(T0, text.encode())]) if it.what == "memory_unaccounted_bytes"]
    assert isinstance(found, Blind) and "AnonPages" in found.why


@pytest.mark.parametrize("law", [unaccounted_memory_to_direct_reclaim, unaccounted_memory_to_oom_kill])
def test_who_lacks_it(law: ModuleType) -> None:
    timeline = node(memory(6e9, 6e9, available=1e9))
    (cause,) = case(*memory(6e9, 6e9, available=1e9)).findings
    small = [it for it in cause.evidence if it.what != "memory_unaccounted_bytes"]
    little = Finding(
        subject="node", span=cause.span, says="", evidence=(read("memory_unaccounted_bytes", "node", 1e9, 0), *small)
    )

    def effect(subject: str) -> Finding:
        return Finding(subject=subject, span=Span(T0, T0 + 5), says="", evidence=(read("x", subject, 1, 0),))

    assert [it.kind for it in law.grounds(cause, effect("node"), timeline)] == ["dose"]
    assert not list(law.grounds(cause, effect("cgroup:/a"), timeline))
    assert not list(law.grounds(little, effect("node"), timeline))
