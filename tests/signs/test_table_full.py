"""table_full: refusals by counter and by log; a table at its limit where nothing counts them; full and steady."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.nodes import T0, node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import defunct_processes_to_table_full, table_full_to_job_failure
from zombiescope.members.rooms import healthy
from zombiescope.signs import table_full


def table(name: str, *used: float, limit: float, refused: Iterable[float] = ()) -> list[Reading]:
    found = []
    for place, value in enumerate(used):
        found.append(read("table_used", f"table:{name}", value, at=place * 5.0))
        found.append(read("table_limit", f"table:{name}", limit, at=place * 5.0))
    found += [read("table_refused_total", f"table:{name}", it, at=place * 5.0) for place, it in enumerate(refused)]
    return found


QUIET = table("threads", 144, 150, limit=32768)


def case(*readings: Reading, unseen: dict[str, str] | None = None) -> Case:
    remedy = {"raise_table_limit": healthy("remedies")["raise_table_limit"]}
    signs = {"table_full": table_full}
    return examine(node([*readings], unseen=unseen), signs=signs, laws={}, remedies=remedy)


def test_neighbours_that_were_refused() -> None:
    result = case(*table("IPv4 neighbours", 1000, 1023, 1024, limit=1024, refused=(5, 5, 65)))
    (found,) = result.root_causes
    assert found.says == "used 1,024 of at most 1,024 IPv4 neighbours; 60 requests were refused"
    assert dict(found.harm.broken) == {"refused": 60}
    assert "gc_thresh3" in result.plans[0].steps[1].says


def test_full_and_steady_is_noted() -> None:
    result = case(*table("IPv4 neighbours", 1020, 1020, 1020, limit=1024, refused=(5, 5, 5)))
    assert [it.sign for it in result.noted] == ["table_full"] and not result.root_causes


def test_where_refusals_are_not_counted_the_next_one_is_refused() -> None:
    watches = [read("inotify_instances", "user:0", 128, 0, "kubelet[7] 90, systemd[1] 8")]
    (found,) = case(*QUIET, *watches, read("inotify_instances_limit", "node", 128, 0)).root_causes
    assert found.subject == "user:0" and "most of them by kubelet[7] 90" in found.says
    assert found.harm.soon_seconds == 0.0


def test_one_that_grows_is_accused_with_the_time_that_is_left() -> None:
    (found,) = case(*table("threads", 31200, 31500, 31800, limit=32768)).root_causes
    assert found.harm.soon_seconds is not None and 10 < found.harm.soon_seconds < 30


def test_a_cgroup_that_refuses_forks() -> None:
    pod = "cgroup:/kubepods/pod1"
    counted = [read("cgroup_forks_refused_total", pod, value, at) for at, value in ((0, 3), (5, 3), (10, 40))]
    now = [read("cgroup_threads", pod, 20, 10), read("cgroup_threads_limit", pod, 20, 10)]
    (found,) = case(*QUIET, *counted, *now).root_causes
    assert found.subject == pod and "used 20 of at most 20 threads" in found.says and "37 requests" in found.says


def test_the_log_alone() -> None:
    texts = ["VFS: file-max limit 9223 reached", "cgroup: fork rejected by pids controller in /kubepods/pod2"]
    lines = [read("kernel_log", "node", 4, place, text) for place, text in enumerate(texts)]
    result = case(*table("file handles", 100, 100, limit=9223), *lines)
    assert {it.subject for it in result.root_causes} == {"table:file handles", "cgroup:/kubepods/pod2"}
    assert all("was full once by the kernel's log" in it.says for it in result.root_causes)


@pytest.mark.parametrize(
    "readings",
    [
        QUIET,
        table("IPv6 routes", 10, 10, limit=0),
        [read("table_used", "table:threads", 9, 0)],
        table("IPv4 neighbours", 10, 10, limit=1024, refused=(7, 7)),
        [
            *QUIET,
            read("cgroup_forks_refused_total", "cgroup:/a", 9, 0),
            read("cgroup_forks_refused_total", "cgroup:/a", 9, 5),
        ],
    ],
    ids=["busy", "no limit", "limit not read", "refused long ago", "a cgroup that refused long ago"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(*readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_blind() -> None:
    assert case(unseen={"table_used": "no such file or directory"}).verdicts[0].state == "blind"
    half = case(*QUIET, unseen={"inotify_instances": "permission denied"})
    assert half.verdicts[0].state == "blind" and "permission denied" in half.verdicts[0].says


def test_zombies_fill_the_table_of_threads() -> None:
    parent = "process:neglect[7]"
    timeline = node([*table("threads", 32768, limit=32768), read("defunct_children", parent, 20000, 0)])
    both = [
        Finding(subject=it, span=timeline.span, says="", evidence=(read("x", it, 1, 0),))
        for it in (parent, "table:threads")
    ]
    (ground,) = defunct_processes_to_table_full.grounds(both[0], both[1], timeline)
    assert "20,000 of the 32,768 in use are zombies" in ground.says
    few = node([*table("threads", 32768, limit=32768), read("defunct_children", parent, 700, 0)])
    assert not list(defunct_processes_to_table_full.grounds(both[0], both[1], few))


def test_a_container_that_could_not_start_threads() -> None:
    pod = "/kubepods/besteffort/pod3f9c2b61-7d1e-4a57-9a0c-5e2d8b7f1c34/" + "a" * 64
    info = read("container_info", f"cgroup:{pod}", 1, 0, "container web of pod default/web-1, image x (containerd)")
    restart = read(
        "container_restarts_total", "container:default/web-1/web", 2, 5, "container web of pod default/web-1"
    )
    timeline = node([info, restart])
    cause = Finding(subject=f"cgroup:{pod}", span=timeline.span, says="", evidence=(read("x", "node", 1, 0),))
    effect = Finding(subject=restart.subject, span=timeline.span, says="", evidence=(restart,))
    (ground,) = table_full_to_job_failure.grounds(cause, effect, timeline)
    assert ground.kind == "place" and info in ground.evidence
    assert timeline.span.start == T0
