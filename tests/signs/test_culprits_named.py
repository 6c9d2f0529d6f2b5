"""Who does it and who pays: locks, hooks, writers, frozen mounts, unread pipes, balanced memory, PID 1."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.nodes import Sampled, node, read
from tests.signs.test_blocked_in import blocked
from tests.signs.test_init_clock_numa import STEPS, nodes, used
from tests.signs.test_sampled_work import BPF, CALL, MAPS, OTHERS, SECONDS, node_readings, stacks

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import (
    busy_init,
    dead_mount,
    disk_stall,
    frozen_filesystem,
    hook_tax,
    kernel_lock,
    numa_lopsided,
    pipe_full,
    sync_storm,
)

FROZEN, PIPE = "percpu_rwsem_wait", "anon_pipe_write"
HOLDS = CALL + "do_mprotect_pkey;mprotect_fixup;change_protection;change_pte_range"
BALANCED = CALL + "task_work_run;task_numa_work;change_prot_numa"


def case(sign: ModuleType, *readings: Reading, samples: list[Sampled] | None = None) -> Case:
    timeline = node(list(readings), samples=sorted(samples or []))
    return examine(timeline, signs={sign.__name__.rpartition(".")[2]: sign}, laws={})


def asleep(what: str, who: str, where: str, seconds: float = 15.0) -> list[Reading]:
    return [read(what, f"process:{who}", at, at, where) for at in (5.0, 10.0, seconds)]


def wrote(**each: float) -> list[Reading]:
    return [
        read("process_written_bytes_total", f"process:{name}[7]", rate * at, at)
        for name, rate in each.items()
        for at in (*STEPS, 15.0)
    ]


def test_who_holds_a_lock_is_the_culprit_and_who_spins_waits() -> None:
    spin, hold = stacks("java[7]", MAPS, 0.4), stacks("agent[9]", HOLDS, 0.5, cpu=1)
    (found,) = case(kernel_lock, *node_readings(), samples=[*spin, *hold]).root_causes
    assert found.subject == "lock:a memory map" and found.culprit == "process:agent[9]"
    assert "held most by agent[9], 4.9 s in change_pte_range" in found.says
    assert found.harm.whom == ("process:java[7]",) and found.harm.waited_cores == pytest.approx(0.4, abs=0.05)


def test_who_loaded_a_program_is_the_culprit_and_who_runs_it_waits() -> None:
    held = read("bpf_program", "bpf:sys_enter", 12, 1, "falco[99]")
    (found,) = case(
        hook_tax, *node_readings(waiting=0), held, samples=[*stacks("nginx[7]", BPF, 0.3), *OTHERS]
    ).findings
    assert found.culprit == "process:falco[99]" and "it was loaded by falco[99]" in found.says
    assert found.harm.whom == ("process:nginx[7]",) and found.harm.waited_cores == pytest.approx(0.3, abs=0.05)


def test_each_frozen_file_system_is_named() -> None:
    readings = [*blocked("a[1]", FROZEN), *blocked("b[2]", FROZEN), *blocked("c[3]", FROZEN)]
    readings += [
        read("process_blocked_on_mount", f"process:{it}", 1, 5, "/data (ext4 on /dev/sdb)") for it in ("a[1]", "b[2]")
    ]
    known, unknown = sorted(case(frozen_filesystem, *readings).root_causes, key=lambda it: it.subject)
    assert known.subject == "mount:/data" and "is frozen: /data (ext4 on /dev/sdb); 2 tasks waited" in known.says
    assert unknown.subject == "node" and "c[3]" in unknown.says


def test_who_waits_for_a_daemon_need_not_be_blocked() -> None:
    silent = [read("fuse_requests_waiting", "mount:/mnt/s3", 1, at) for at in STEPS]
    looked = read("process_blocked_seconds", "process:x[1]", 0, 1)
    waits = asleep("fuse_waiter_seconds", "du[7]", "request_wait_answer")
    (found,) = case(dead_mount, looked, *silent, *waits).root_causes
    assert found.subject == "mount:/mnt/s3" and "keeps 1 task waiting" in found.says
    assert not case(
        dead_mount, looked, *silent, *asleep("fuse_waiter_seconds", "du[7]", "request_wait_answer", 7)[:1]
    ).findings


def test_who_writes_most_is_named_with_a_full_journal() -> None:
    waits = [*blocked("a[1]", "jbd2_log_wait_commit"), *blocked("b[2]", "jbd2_log_wait_commit")]
    (found,) = case(sync_storm, *waits, *wrote(dump=64 << 20, syslog=1000)).root_causes
    assert found.culprit == "process:dump[7]" and "dump[7] wrote most, 67.1 MB a second" in found.says
    (found,) = case(sync_storm, *waits, *wrote(a=2 << 20, b=2 << 20, c=2 << 20)).root_causes
    assert not found.culprit and "wrote most" not in found.says


def test_a_pages_bit_is_a_wait_for_writing_only_while_pages_are_written() -> None:
    waits = [*blocked("a[1]", "folio_wait_bit"), *blocked("b[2]", "folio_wait_bit")]
    writing = [read("writeback_pages", "node", 900, at) for at in STEPS]
    (found,) = case(sync_storm, *waits, *writing).root_causes
    assert "2 tasks waiting for pages that are being written" in found.says
    assert not case(sync_storm, *waits).findings
    assert not case(sync_storm, *writing, *blocked("a[1]", "folio_wait_bit_killable")).findings


def test_a_pipe_that_nobody_reads() -> None:
    looked = [read("pipe_writers", "node", 1, at) for at in STEPS]
    reader = read("pipe_reader", "process:app[7]", 1, 10, "logger[8]")
    (found,) = case(pipe_full, *looked, *asleep("pipe_writer_seconds", "app[7]", PIPE), reader).root_causes
    assert found.subject == found.culprit == "process:logger[8]" and "keeps app[7] waiting to print" in found.says
    assert found.harm.whom == ("process:app[7]",)
    assert not case(pipe_full, *looked, *asleep("pipe_writer_seconds", "app[7]", PIPE)).findings
    slowed = case(pipe_full, *looked, *asleep("pipe_writer_seconds", "tar[7]", PIPE)[:1])
    assert not slowed.findings and slowed.verdicts[0].state == "clear"


def hinted(often: float) -> list[Reading]:
    return [*nodes((0.3, 0.4)), *(read("vmstat_numa_hint_faults_total", "node", often * at, at) for at in STEPS)]


def test_memory_that_is_balanced_all_the_time() -> None:
    busy = [*stacks("dispatch[7]", BALANCED, 0.3), *OTHERS]
    (found,) = case(numa_lopsided, *hinted(20_000), samples=busy).root_causes
    assert found.subject == "node" and "20,000 page faults a second only to see" in found.says
    assert found.harm.whom == ("process:dispatch[7]",)
    assert not case(numa_lopsided, *hinted(100), samples=busy).findings
    assert not case(numa_lopsided, *hinted(20_000), samples=[*stacks("dispatch[7]", BALANCED, 0.01), *OTHERS]).findings


def test_pid_1_of_a_container_and_how_long_a_question_took_it() -> None:
    inside = read("process_is_init", "process:systemd[812]", 1, 5)
    answers = [read("systemd_answer_seconds", "node", value, at) for value, at in ((0.001, 0.0), (2.5, 5.0))]
    (found,) = case(busy_init, *used("systemd[812]", 0.9), inside, *answers).root_causes
    assert found.subject == "process:systemd[812]" and "a question took it 2.5 s" in found.says
    assert found.harm.waited_cores == pytest.approx(0.9, abs=0.01)


def test_a_slow_disk_names_who_writes() -> None:
    at = [float(it) for it in range(0, SECONDS, 2)]
    figures = {"requests": 10.0, "wait_seconds": 8.0, "queue_seconds": 4.0, "bytes": 1e6}
    readings = [read(f"disk_{name}_total", "disk:sdb", rate * it, it) for name, rate in figures.items() for it in at]
    readings += [read("pressure_io_waiting_seconds_total", "node", 0.8 * it, it) for it in at]
    (found,) = case(disk_stall, *readings, *wrote(dump=8 << 20)).root_causes
    assert found.subject == "disk:sdb" and found.culprit == "process:dump[7]"
