"""defunct_processes: the parent that does not wait is named; a few dead children are not its disgrace."""

from __future__ import annotations

from tests.nodes import node, read

from zombiescope.core.model import Case
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import defunct_processes

PARENT = "process:ini\x1b[t[1]"


def case(timeline: Timeline) -> Case:
    return examine(timeline, signs={"defunct_processes": defunct_processes}, laws={})


def left(*counts: float, limit: float = 32_768) -> Timeline:
    text = "job\n[11], job[12]; for 10 s or more"
    readings = [read("defunct_children", PARENT, count, 5.0 * place, text) for place, count in enumerate(counts, 1)]
    readings += [
        read("defunct_processes", "node", counts[-1], 5.0 * len(counts)),
        read("pid_limit", "node", limit, 0.0),
    ]
    return node(readings)


def test_the_parent_is_named_with_how_many_and_how_fast() -> None:
    (found,) = case(left(50, 70)).findings
    assert found.subject == PARENT
    assert found.says.startswith("has 70 zombie processes not reaped, 20 more in 5 s; each holds one of 32,768 pids")
    assert "job\\x0a[11]" in found.says and "soon" not in found.says
    assert {it.what for it in found.evidence} == {"defunct_children", "pid_limit", "defunct_processes"}


def test_when_pids_run_out_it_says_so() -> None:
    (found,) = case(left(20_000)).findings
    assert "soon no process can start" in found.says


def test_few_or_reaped_are_silent() -> None:
    result = case(left(5, 7))
    assert not result.findings
    assert (result.verdicts[0].state, result.verdicts[0].says) == ("clear", "7 zombie processes on the node")


def test_one_look_is_blind() -> None:
    once = node([], unseen={"defunct_children": "only one sample; zombies that stay need two"})
    assert case(once).verdicts[0].state == "blind"
