"""What blocked or frozen tasks wait for: the journal, a mount, a thaw, memory; and stopped processes."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import (
    compaction_stall_to_blocked_tasks,
    dead_mount_to_blocked_tasks,
    disk_stall_to_sync_storm,
    frozen_cgroup_to_blocked_tasks,
    frozen_filesystem_to_blocked_tasks,
    sync_storm_to_blocked_tasks,
)
from zombiescope.members.rooms import healthy
from zombiescope.signs import (
    blocked_tasks,
    compaction_stall,
    dead_mount,
    frozen_cgroup,
    frozen_filesystem,
    stopped_tasks,
    sync_storm,
)


def blocked(who: str, where: str, seconds: float = 15.0) -> list[Reading]:
    """Sampled every five seconds."""
    steps = [it * 5.0 for it in range(int(seconds // 5) + 1)]
    return [read("process_blocked_seconds", f"process:{who}", at, at, where) for at in steps]


def case(sign: ModuleType, *readings: Reading, laws: dict[str, ModuleType] | None = None) -> Case:
    signs = {sign.__name__.rpartition(".")[2]: sign} | ({"blocked_tasks": blocked_tasks} if laws else {})
    remedies = {"thaw": healthy("remedies")["thaw"]}
    return examine(node([*readings]), signs=signs, laws=laws or {}, remedies=remedies)


def log(at: float, text: str) -> Reading:
    return read("kernel_log", "node", 4, at, text)


JOURNAL = [*blocked("dockerd[7]", "jbd2_log_wait_commit"), *blocked("kubelet[8]", "folio_wait_writeback", 10.0)]
DIRTY = [read("dirty_pages", "node", 250_000, 5), read("dirty_pages_limit", "node", 500_000, 5)]


def test_a_journal_that_all_wait_for() -> None:
    laws = {"sync_storm_to_blocked_tasks": sync_storm_to_blocked_tasks}
    result = case(sync_storm, *JOURNAL, *DIRTY, laws=laws)
    (found,) = result.root_causes
    assert found.says == (
        "has 2 tasks waiting for the journal for up to 15.0 s: dockerd[7], kubelet[8]; "
        "1.0 GB wait to be written, 50 % of what the kernel allows"
    )
    assert found.harm.waited_cores and {it.law for it in result.links} == {"sync_storm_to_blocked_tasks"}


def test_an_nfs_server_that_is_gone() -> None:
    laws = {"dead_mount_to_blocked_tasks": dead_mount_to_blocked_tasks}
    hung = blocked("kubelet[8]", "rpc_wait_bit_killable")
    silent = log(1.0, "nfs: server 10.0.3.7 not responding, still trying")
    result = case(dead_mount, *hung, silent, laws=laws)
    (found,) = result.root_causes
    assert found.subject == "mount:10.0.3.7" and "NFS server 10.0.3.7" in found.says and "kubelet[8]" in found.says
    assert [it.law for it in result.links] == ["dead_mount_to_blocked_tasks"]
    back = case(dead_mount, *blocked("a[1]", "io_schedule"), silent, log(9.0, "nfs: server 10.0.3.7 OK"))
    assert not back.findings


def test_a_fuse_daemon_that_is_stopped() -> None:
    waits = [read("fuse_requests_waiting", "mount:/mnt/data", 3, at) for at in (0.0, 5.0, 10.0)]
    idle = [read("fuse_requests_waiting", "mount:/mnt/fine", 0, at) for at in (0.0, 5.0, 10.0)]
    (found,) = case(dead_mount, *blocked("ls[9]", "request_wait_answer"), *waits, *idle).root_causes
    assert found.subject == "mount:/mnt/data" and "/mnt/fine" not in found.says


def test_a_file_system_that_was_not_thawed() -> None:
    laws = {"frozen_filesystem_to_blocked_tasks": frozen_filesystem_to_blocked_tasks}
    result = case(frozen_filesystem, *blocked("postgres[9]", "percpu_rwsem_wait"), laws=laws)
    assert [it.sign for it in result.root_causes] == ["frozen_filesystem"] and result.links


def test_a_cgroup_that_was_not_thawed() -> None:
    pod = "cgroup:/kubepods/pod1"
    state = [read("cgroup_frozen", pod, 1, at) for at in (0.0, 5.0, 10.0)]
    count = [read("cgroups_frozen", "node", 1, at) for at in (0.0, 5.0, 10.0)]
    laws = {"frozen_cgroup_to_blocked_tasks": frozen_cgroup_to_blocked_tasks}
    frozen = blocked("web[9]", "__refrigerator")
    result = case(frozen_cgroup, *state, *count, *frozen, laws=laws)
    (found,) = result.root_causes
    assert found.subject == pod and found.says == "is frozen for 10.0 s: no process of /kubepods/pod1 runs"
    assert result.links and result.plans[0].risk == "disruptive"
    thawed = [read("cgroup_frozen", pod, 1, 0.0), read("cgroup_frozen", pod, 0, 5.0), read("cgroup_frozen", pod, 0, 10)]
    assert not case(frozen_cgroup, *thawed, *count).findings


def test_a_task_that_may_not_be_oom_killed() -> None:
    inside = read("process_in_cgroup", "process:java[9]", 1, 5, "/docker/a")
    parked = blocked("java[9]", "mem_cgroup_oom_synchronize")
    (found,) = case(frozen_cgroup, read("cgroups_frozen", "node", 0, 0), *parked, inside).root_causes
    assert found.says == "is parked in /docker/a for 15.0 s: out of memory, with OOM kills switched off"


def test_stopped_processes_are_noted() -> None:
    stopped = [read("stopped_processes", "node", 1, at, "worker[7]") for at in (0.0, 5.0, 10.0)]
    (found,) = case(stopped_tasks, *stopped).noted
    assert found.says == "has 1 stopped process for 10.0 s: worker[7]"
    moment = [read("stopped_processes", "node", value, at) for at, value in ((0.0, 0), (5.0, 1), (10.0, 0))]
    assert case(stopped_tasks, *moment).verdicts[0].state == "clear"


def memory(stalls: float, waiting: float, scanned: float) -> list[Reading]:
    rates = {"vmstat_compact_stall_total": stalls, "vmstat_pgscan_direct_total": scanned}
    rates |= {"pressure_memory_waiting_seconds_total": waiting}
    return [read(what, "node", 7 + rate * at, at) for what, rate in rates.items() for at in (0.0, 2.0, 4.0, 6.0, 8.0)]


def test_programs_that_wait_for_large_blocks() -> None:
    (found,) = case(compaction_stall, *memory(40, 0.3, 10)).root_causes
    assert "compacted memory for 40 requests a second for 8.0 s; tasks waited for memory 30 %" in found.says


@pytest.mark.parametrize(
    ("sign", "readings"),
    [
        (sync_storm, blocked("rsync[7]", "jbd2_log_wait_commit", 5.0)),
        (sync_storm, [*blocked("a[7]", "rpc_wait_bit_killable"), *blocked("b[8]", "io_schedule")]),
        (dead_mount, blocked("dd[7]", "io_schedule")),
        (dead_mount, blocked("ls[7]", "rpc_wait_bit_killable", 5.0)),
        (frozen_filesystem, blocked("dd[7]", "percpu_rwsem_wait", 5.0)),
        (frozen_cgroup, [read("cgroups_frozen", "node", 0, 0), *blocked("dd[7]", "io_schedule")]),
        (compaction_stall, memory(40, 0.01, 0)),
        (compaction_stall, memory(40, 0.5, 50_000)),
        (compaction_stall, memory(0.2, 0.5, 0)),
    ],
)
def test_silent(sign: ModuleType, readings: list[Reading]) -> None:
    result = case(sign, *readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


@pytest.mark.parametrize(
    "sign", [sync_storm, dead_mount, frozen_filesystem, frozen_cgroup, stopped_tasks, compaction_stall]
)
def test_blind(sign: ModuleType) -> None:
    needs = [what for need in sign.NEEDS for what in ((need,) if isinstance(need, str) else need)]
    result = examine(node([], unseen=dict.fromkeys(needs, "permission denied")), signs={"it": sign}, laws={})
    assert result.verdicts[0].state == "blind"


@pytest.mark.parametrize("sign", [sync_storm, dead_mount, frozen_filesystem])
def test_what_may_not_be_seen_is_not_clear(sign: ModuleType) -> None:
    verdict = case(sign, *blocked("root[7]", "")).verdicts[0]
    assert verdict.state == "blind" and "what 1 blocked tasks wait for" in verdict.says


def test_what_else_leads_to_them() -> None:
    pressure = [read("pressure_io_waiting_seconds_total", "node", 0.5 * at, at) for at in (0.0, 5.0, 10.0)]
    timeline = node(pressure)
    one = Finding(subject="node", span=timeline.span, says="", evidence=(read("x", "node", 1, 0, "compact_zone"),))
    assert list(disk_stall_to_sync_storm.grounds(one, one, timeline))
    assert not list(disk_stall_to_sync_storm.grounds(one, one, node([])))
    assert list(compaction_stall_to_blocked_tasks.grounds(one, one, timeline))
    assert timeline.span.start == T0
