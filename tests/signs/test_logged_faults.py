"""logged_faults: every kind of fault in the log is noted with its count; what a law ties to a failed job is accused."""

from __future__ import annotations

import tomllib

import pytest
from tests.conftest import PROJECT
from tests.nodes import T0, node, read
from tests.probes.test_ray_logs import LOST
from tests.signs.test_job_failure import CRASH

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import logged_faults_to_blocked_tasks, logged_faults_to_job_failure
from zombiescope.members.rooms import healthy
from zombiescope.signs import blocked_tasks, job_failure, logged_faults

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
FREE = "unregister_netdevice: waiting for lo to become free. Usage count = 1"


def log(*lines: tuple[float, str]) -> list[Reading]:
    return [read("kernel_log", "node", 3, at=at, text=text) for at, text in lines]


def case(*lines: tuple[float, str], unseen: dict[str, str] | None = None) -> Case:
    return examine(node(log(*lines), unseen=unseen), signs={"logged_faults": logged_faults}, laws={})


def test_faults_are_counted_by_device_and_noted() -> None:
    found = case((0.0, XID), (5.0, XID), (6.0, "NVRM: Xid (PCI:0000:86:00): 48")).noted
    assert [it.subject for it in found] == ["gpu:0000:3b:00", "gpu:0000:86:00"]
    assert found[0].says == (
        "has 2 GPU faults in the kernel's log: Xid 79, in python3[1234] (GPU has fallen off the bus.)"
    )
    assert found[0].span.start == T0 and len(found[0].evidence) == 2


def test_the_lines_of_one_oops_are_one() -> None:
    lines = ["BUG: kernel NULL pointer dereference, address: 0000000000000008", "Oops: 0002 [#1] SMP PTI"]
    (found,) = case(*((place * 0.01, text) for place, text in enumerate(lines))).noted
    assert found.says.startswith("has a kernel bug (oops) in the kernel's log")
    (two,) = case((0.0, lines[1]), (1.0, "Oops: 0000 [#2] SMP PTI")).noted
    assert two.says.startswith("has 2 kernel bugs")


def test_a_storm_of_crashes_is_one_finding_of_the_program() -> None:
    crash = "worker[{}]: segfault at 0 ip 00007f1c2d3e4f50 sp 00007ffd1b2c3d40 error 4 in libc.so.6"
    (found,) = case(*((place * 1.0, crash.format(100 + place)) for place in range(50))).noted
    assert found.subject == "program:worker" and "50 crashes of programs" in found.says and "and 47 more" in found.says


@pytest.mark.parametrize("kind", sorted(logged_faults._KINDS))
def test_every_kind_is_noted_in_its_own_words(kind: str) -> None:
    lines = tomllib.loads((PROJECT / "tests/data/kernel_messages/formats.toml").read_text())["line"]
    texts = [it["text"] for it in lines if it["kind"] == kind]
    found = case(*((place * 1.0, text) for place, text in enumerate(texts)))
    assert texts and found.noted and not found.root_causes
    assert all("in the kernel's log" in it.says for it in found.noted)


def test_switches_and_other_cards_are_named_in_their_own_words() -> None:
    switch = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    found = case((0.0, switch), (1.0, "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!")).noted
    assert [it.says.partition(": ")[2] for it in found] == ["SXid 20034 (Fatal, Link 30 LTSSM Fault Up)", "GPU reset"]


def test_urgent_lines_of_no_known_kind_are_noted_once_and_those_after_a_known_one_are_its_own() -> None:
    urgent = [read("kernel_log", "node", level, at=at, text=f"xyz: melted {at}") for at, level in ((0.0, 2), (1.0, 0))]
    (found,) = examine(node(urgent), signs={"logged_faults": logged_faults}, laws={}).noted
    assert found.says == "has 2 urgent lines of no known kind in the kernel's log: xyz: melted 0.0"
    assert not case((0.0, "xyz: failed to probe")).noted
    oops = read("kernel_log", "node", 1, at=0.0, text="BUG: kernel NULL pointer dereference, address: 0000000000000008")
    after = [read("kernel_log", "node", 1, at=1.0, text="#PF: supervisor read access in kernel mode")]
    after += [read("kernel_log", "node", 4, at=2.0, text="Call Trace:")]
    (only,) = examine(node([oops, *after]), signs={"logged_faults": logged_faults}, laws={}).noted
    assert "oops" in only.says


def test_a_trace_of_the_stack_is_noted_where_the_log_has_no_levels() -> None:
    (found,) = case((0.0, "something new happened"), (0.1, "Call Trace:")).noted
    assert "an urgent line of no known kind" in found.says


def test_every_recognised_kind_is_read_by_a_sign() -> None:
    """What is recognised and read by nobody would be a log full of faults that is called clear."""
    lines = tomllib.loads((PROJECT / "tests/data/kernel_messages/formats.toml").read_text())["line"]
    texts = "".join(path.read_text() for path in (PROJECT / "src/zombiescope/signs").glob("*.py"))
    assert {it["kind"] for it in lines if f'"{it["kind"]}"' not in texts} == set()


HARMLESS = {"mount_answers"}  # of what is recognised: a server that answers again


def test_a_saved_log_alone_is_never_called_clear() -> None:
    """Where nothing but the log was read, signs that need counters are blind: what they would read is noted here."""
    lines = tomllib.loads((PROJECT / "tests/data/kernel_messages/formats.toml").read_text())["line"]
    alone = {name: it for name, it in healthy("signs").items() if all("kernel_log" in need for need in it.NEEDS)}
    assert len(alone) >= 8
    for kind in {it["kind"] for it in lines} - HARMLESS:
        texts = [it["text"] for it in lines if it["kind"] == kind]
        every = log(*((place * 1.0, text) for place, text in enumerate(texts)))
        assert examine(node(every), signs=alone, laws={}, questions={}, remedies={}).findings, kind


def test_beside_its_counter_a_line_is_left_to_the_sign_that_reads_both() -> None:
    full = log((0.0, "VFS: file-max limit 9223 reached"))
    counted = [read("table_used", "table:file handles", 9_000, at) for at in (0.0, 5.0)]
    assert (
        case((0.0, "VFS: file-max limit 9223 reached"))
        .noted[0]
        .says.endswith("a full table in the kernel's log: file-max")
    )
    both = examine(node([*full, *counted]), signs={"logged_faults": logged_faults}, laws={})
    assert not both.findings


def test_hostile_names_stay_on_one_line() -> None:
    (found,) = case((0.0, "NVRM: Xid (PCI:0000:3b:00): 13, pid=7, name=a\x1b[31m\nb, x")).noted
    assert "\x1b" not in found.says and "\n" not in found.says


def test_a_blocked_task_and_the_device_that_is_not_released() -> None:
    blocked = [read("process_blocked_seconds", "process:runc[7]", at, at, "rtnl_lock") for at in (0.0, 5.0, 10.0, 15.0)]
    both = examine(
        node([*log((1.0, FREE)), *blocked]),
        signs={"logged_faults": logged_faults, "blocked_tasks": blocked_tasks},
        laws={"logged_faults_to_blocked_tasks": logged_faults_to_blocked_tasks},
    )
    assert [it.sign for it in both.root_causes] == ["logged_faults"]
    assert "waits in rtnl_lock while the device lo" in both.links[0].grounds[0].says
    other = [read("process_blocked_seconds", "process:dd[7]", at, at, "io_schedule") for at in (0.0, 5.0, 10.0, 15.0)]
    alone = examine(
        node([*log((1.0, FREE)), *other]),
        signs={"logged_faults": logged_faults, "blocked_tasks": blocked_tasks},
        laws={"logged_faults_to_blocked_tasks": logged_faults_to_blocked_tasks},
    )
    assert not alone.links


@pytest.mark.parametrize(("pid", "tied"), [(1234, True), (12, False)])
def test_a_worker_that_the_faulty_gpu_took_along(pid: int, tied: bool) -> None:
    result = examine(
        node([*log((9.5, XID)), read("ray_event", "job:01000000", 3, 10, CRASH.format(LOST, pid))]),
        signs={"logged_faults": logged_faults, "job_failure": job_failure},
        laws={"logged_faults_to_job_failure": logged_faults_to_job_failure},
    )
    assert [it.sign for it in result.root_causes] == ["logged_faults"] * tied
    assert bool(result.links) == tied and bool(result.noted) != tied


def test_silent_and_blind() -> None:
    healthy = case((0.0, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"), (1.0, "eth0: Link is Up"))
    assert healthy.verdicts[0].state == "clear" and healthy.verdicts[0].evidence
    assert case(unseen={"kernel_log": "operation not permitted"}).verdicts[0].state == "blind"
