"""disk_stall: a slow disk, one at its ceiling, one that answers nothing, a cgroup with a limit; a stream is silent."""

from __future__ import annotations

import pytest
from tests.nodes import node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import disk_stall_to_blocked_tasks
from zombiescope.members.rooms import healthy
from zombiescope.signs import disk_stall

LOOKS = 8


def disk(
    requests: float, each: float, queue: float, *, name: str = "disk:vda", bytes_each: float = 4096.0
) -> list[Reading]:
    """So many requests a second that take so long each, read every two seconds."""
    rates = {
        "disk_requests_total": requests,
        "disk_bytes_total": requests * bytes_each,
        "disk_wait_seconds_total": requests * each,
        "disk_queue_seconds_total": queue,
    }
    return [read(what, name, 900 + rate * 2 * it, it * 2.0) for what, rate in rates.items() for it in range(LOOKS)]


def pressure(share: float, kind: str = "io") -> list[Reading]:
    what = f"pressure_{kind}_waiting_seconds_total"
    return [read(what, "node", 50 + share * 2 * it, it * 2.0) for it in range(LOOKS)]


def case(*readings: Reading, unseen: dict[str, str] | None = None) -> Case:
    remedies = {"relieve_disk": healthy("remedies")["relieve_disk"]}
    return examine(node([*readings], unseen=unseen), signs={"disk_stall": disk_stall}, laws={}, remedies=remedies)


def test_a_disk_at_its_ceiling() -> None:
    result = case(*disk(100, 0.64, 64), *pressure(0.7))
    (found,) = result.root_causes
    assert found.subject == "disk:vda" and found.span.seconds == 14
    assert (
        "took 640 ms for a request for 14.0 s, with 64.0 waiting, at a ceiling of 100 requests a second" in found.says
    )
    assert "tasks waited for I/O 70 % of that time" in found.says
    assert found.harm.waited_cores == pytest.approx(0.7) and "as much as it may" in result.plans[0].steps[1].says


def test_a_disk_that_answers_nothing() -> None:
    (found,) = case(*disk(0, 0, 5), *pressure(1.0)).root_causes
    assert "took 2,000 ms" in found.says


def test_a_cgroup_at_its_own_limit() -> None:
    subject, text = "iolimit:/build 254:0 wiops", "/build vda wiops"
    own = [read("cgroup_io_limit", subject, 50, it * 2.0, text) for it in range(LOOKS)]
    own += [read("cgroup_io_total", subject, 100 * it, it * 2.0, text) for it in range(LOOKS)]
    (found,) = case(*disk(50, 0.002, 0.1), *own, *pressure(0.4)).root_causes
    assert found.subject == found.culprit == "cgroup:/build"
    assert "its own I/O limit on vda (writing 50 requests a second)" in found.says
    assert not case(*disk(50, 0.002, 0.1), *own, *pressure(0.01)).findings


def test_commands_that_timed_out() -> None:
    lines = ["nvme nvme0: I/O 224 QID 3 timeout, aborting", "nvme nvme0: I/O 224 QID 3 timeout, reset controller"]
    logged = [read("kernel_log", "node", 4, 3.0 + it, text) for it, text in enumerate(lines)]
    (found,) = case(*disk(10, 0.001, 0.0), *pressure(0.0), *logged).root_causes
    assert found.subject == "disk:nvme0" and dict(found.harm.broken) == {"resets": 1} and found.span.seconds == 31


@pytest.mark.parametrize(
    "readings",
    [
        [*disk(2000, 0.0005, 1), *pressure(0.05)],
        [*disk(900, 0.13, 120, bytes_each=262144), *pressure(0.5)],
        [*disk(100, 0.64, 64), *pressure(0.02)],
        [*disk(0, 0, 0), *pressure(0.9)],
    ],
    ids=["busy", "a stream with a full queue", "slow, and nobody waits", "idle, and others wait"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(*readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_blind() -> None:
    assert case(*disk(1, 0.1, 1), unseen={"pressure_io_waiting_seconds_total": "psi=0"}).verdicts[0].state == "blind"


def blocked(text: str) -> Finding:
    reading = read("process_blocked_seconds", "process:dd[7]", 9, 9, text)
    return Finding(subject="process:dd[7]", span=node([*pressure(0.5)]).span, says="", evidence=(reading,))


def test_who_is_blocked_behind_it() -> None:
    timeline = node([*pressure(0.5), *pressure(0.01, "memory")])
    stall = Finding(subject="disk:vda", span=timeline.span, says="", evidence=(read("x", "disk:vda", 1, 0),))
    kinds = [it.kind for it in disk_stall_to_blocked_tasks.grounds(stall, blocked("folio_wait_bit_common"), timeline)]
    assert kinds == ["mechanism", "dose"]
    assert not list(disk_stall_to_blocked_tasks.grounds(stall, blocked("rpc_wait_bit_killable"), timeline))
