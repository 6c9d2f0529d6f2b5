"""What we ourselves do on a node is said on a line of its own: no finding, no cause, no symptom in a proof."""

from __future__ import annotations

import io
import json
import re

import pytest
from tests.diagnosis.incident import CORE, incident, walk
from tests.nodes import Sampled, node, read
from tests.signs.test_sampled_work import BPF, FORK, MOUNTS, OTHERS, SMAPS, node_readings, stacks

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.outputs import json as as_json
from zombiescope.outputs import text

CLEARS = "entry_SYSCALL_64;do_syscall_64;do_user_addr_fault;clear_page_erms"
LOADS = "entry_SYSCALL_64;do_syscall_64;__sys_bpf;bpf_prog_load;bpf_check"


def ours(pid: int, since: float = 0.0, value: float = 1.0) -> Reading:
    return read("own_process", f"pid:{pid}", value, since)


def named(case: Case, who: str) -> list[str]:
    """The findings in which somebody is named as the one who did it, or whom it happened to."""
    return [it.sign for it in case.findings if who in (it.subject, it.culprit)]


def sampled(*samples: list[Sampled], extra: tuple[Reading, ...] = ()) -> Case:
    every = sorted(it for group in samples for it in group)
    return examine(node([*node_readings(system=0.97), *extra], samples=every))


@pytest.mark.parametrize("stack", [SMAPS, MOUNTS, FORK, BPF, CLEARS, LOADS], ids=lambda it: it.rpartition(";")[2])
def test_whatever_we_do_we_do_not_accuse_ourselves(stack: str) -> None:
    holder = read("bpf_program", "bpf:sys_enter", 12, 1, "zombiescope[77]")
    busy = stacks("zombiescope[77]", stack, 0.95)
    before = sampled(busy, OTHERS, extra=(holder,))
    after = sampled(busy, OTHERS, extra=(holder, ours(77)))
    assert named(before, "process:zombiescope[77]") or any("zombiescope[77]" in it.says for it in before.findings)
    assert not named(after, "process:zombiescope[77]")
    assert not [it.sign for it in after.problems if re.search(r"% of it zombiescope\[77\]", it.says)]
    assert {it.sign for it in after.own} >= set(named(before, "process:zombiescope[77]"))


def test_the_incident_with_our_own_walk_accuses_nobody_of_it_and_says_so() -> None:
    mine = walk("zombiescope[812]")
    case = examine(incident(samples=mine, extra=[ours(812)]))
    assert not named(case, "process:zombiescope[812]") and "cgroup_walker" in {it.sign for it in case.own}
    assert not [it for it in case.findings if it.sign == "saturated_core" and it.subject == f"cpu:{CORE}"]
    out = io.StringIO()
    text.write(case, incident(), out)
    assert "What zombiescope itself did or met with, which is no finding" in out.getvalue()
    assert "zombiescope itself took" in out.getvalue()
    out = io.StringIO()
    as_json.write(case, incident(), out)
    assert "cgroup_walker" in {it["sign"] for it in json.loads(out.getvalue())["own"]}


def test_a_process_that_took_our_number_later_is_not_ours() -> None:
    later = examine(incident(samples=walk("kubelet[812]"), extra=[ours(812), ours(812, 10.0, 0.0)]))
    assert named(later, "process:kubelet[812]") and not later.own


def test_a_process_that_only_has_our_name_is_not_ours() -> None:
    case = examine(incident(samples=walk("zombiescope[812]"), extra=[ours(99)]))
    assert named(case, "process:zombiescope[812]") and not case.own


def test_a_function_of_the_kernel_is_no_program_that_hooks() -> None:
    case = sampled(stacks("falco[9]", LOADS, 0.5), OTHERS)
    assert not [it for it in case.findings if it.sign == "hook_tax"]
