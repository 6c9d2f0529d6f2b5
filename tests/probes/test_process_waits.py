"""processes: who waits to run, who is blocked and who stays defunct, from look to look, in bounds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.probes.machine import machine
from tests.probes.test_processes import Clock, stat

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.kernel.text import cores
from zombiescope.probes import _process_threads, _process_waits, processes
from zombiescope.probes._process_waits import parse_group, parse_schedstat, parse_status, parse_turns

STATUS = "Name:\tnfsd\nState:\tD (disk sleep)\nCpus_allowed_list:\t{cores}\n" + (
    "voluntary_ctxt_switches:\t{turns}\nnonvoluntary_ctxt_switches:\t7\n"
)


def status(turns: int = 1, cores: str = "0-1") -> str:
    return STATUS.format(turns=turns, cores=cores)


class Going:
    """A recorded root that is looked at every five seconds, and holds at each look what it is given then."""

    def __init__(self, root: Path) -> None:
        self.root, self.at = root, 0
        machine(root, {"at": "0"})

    def __enter__(self) -> Going:
        self._watch = processes.watch(Clock(str(self.root), live=False))
        self._look = self._watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.__exit__(None, None, None)

    def look(self, *stats: str, files: Mapping[str, str] | None = None) -> list[Reading | Blind]:
        self.at += 5
        shutil.rmtree(self.root / "proc", ignore_errors=True)
        told = {f"proc/{text.partition(' ')[0]}/stat": text for text in stats}
        machine(self.root, {"at": str(self.at), **told, **(files or {})})
        return list(self._look())


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    with Going(tmp_path) as it:
        yield it


def values(seen: list[Reading | Blind], what: str) -> dict[str, tuple[float, str]]:
    return {it.subject: (it.value, it.text) for it in seen if isinstance(it, Reading) and it.what == what}


def unseen(seen: list[Reading | Blind], what: str) -> list[str]:
    return [it.why for it in seen if isinstance(it, Blind) and it.what == what]


def test_who_stays_defunct_is_told_by_the_parent_that_does_not_wait_for_it(going: Going) -> None:
    parent, other = stat(5, name="sup er"), stat(6, name="sh")
    dead = [stat(pid, state="Z", parent=5, name="job") for pid in (11, 12, 13)]
    assert "only one sample" in unseen(going.look(parent, other, *dead[:2]), "defunct_children")[0]
    # One more that has just died is not counted yet, and one whose other threads live on is not dead at all.
    half_dead = stat(14, state="Z", parent=5, threads=3)
    seen = going.look(parent, other, *dead, half_dead, stat(20, state="Z", parent=6))
    assert values(seen, "defunct_children") == {"process:sup er[5]": (2, "job[11], job[12]; for 5 s or more")}
    assert values(seen, "defunct_processes")["node"][0] == 4
    seen = going.look(parent, other, *dead, half_dead)
    assert values(seen, "defunct_children")["process:sup er[5]"] == (
        3,
        "job[11], job[12], job[13]; for 10 s or more",
    )
    seen = going.look(parent, other)
    assert values(seen, "defunct_children") == {"process:sup er[5]": (0, "")}, "its value does not hold for ever"
    assert not values(going.look(parent, other), "defunct_children")


def test_a_parent_that_is_not_visible_is_named_by_its_number(going: Going) -> None:
    dead = stat(11, state="Z", parent=5)
    going.look(dead)
    assert set(values(going.look(dead), "defunct_children")) == {"process:?[5]"}


def test_blocked_is_who_never_ran_between_two_looks(going: Going) -> None:
    stuck, busy = stat(7, state="D", name="nfsd"), stat(8, state="D", name="dd")
    files = {"proc/7/status": status(), "proc/7/wchan": "rpc_wait_bit_killable"}
    seen = going.look(stuck, busy, files={**files, "proc/8/status": status(100)})
    assert not values(seen, "process_blocked_seconds")
    seen = going.look(stuck, busy, files={**files, "proc/8/status": status(400)})
    assert values(seen, "process_blocked_seconds") == {"process:nfsd[7]": (5, "rpc_wait_bit_killable")}
    assert values(seen, "blocked_processes")["node"][0] == 2
    seen = going.look(stuck, files={**files, "proc/7/wchan": "0"})
    assert values(seen, "process_blocked_seconds") == {"process:nfsd[7]": (10, "")}, "0 is for those who may not know"
    seen = going.look(stat(7, name="nfsd"), files=files)
    assert values(seen, "process_blocked_seconds") == {"process:nfsd[7]": (0, "")}
    assert not values(going.look(stuck, files=files), "process_blocked_seconds"), "blocked anew begins anew"


def test_many_blocked_are_bounded_and_said(going: Going) -> None:
    many = [stat(pid, state="D") for pid in range(100, 150)]
    files = {f"proc/{pid}/status": status() for pid in range(100, 150)}
    going.look(*many, files=files)
    seen = going.look(*many, files=files)
    assert len(values(seen, "process_blocked_seconds")) == _process_waits.STUCK
    assert unseen(seen, "process_blocked_seconds") == ["30 blocked processes more than 20 were not read in detail"]


def test_who_is_runnable_is_followed_and_asked_where_it_may_run_only_if_it_waits(going: Going) -> None:
    def at(waited: int) -> list[Reading | Blind]:
        return going.look(
            stat(7, 100, state="R", name="job", cpu=1),
            stat(8),
            files={
                "proc/7/schedstat": f"1000000 {waited} {56 + going.at}\n",
                "proc/7/status": status(cores="1"),
                "proc/7/cgroup": "4:memory:/\n1:cpu,cpuacct:/kube/pod1\n0::/x\n",
            },
        )

    first, second, third = at(0), at(4_900_000_000), at(5_000_000_000)
    assert values(first, "process_run_delay_seconds_total") == {"process:job[7]": (0, "")}
    assert values(second, "process_run_delay_seconds_total") == {"process:job[7]": (4.9, "")}
    assert values(second, "process_cpu") == {"process:job[7]": (1, "")}
    assert values(second, "process_cpus_allowed") == {"process:job[7]": (1, "1")}
    assert values(second, "process_in_cgroup") == {"process:job[7]": (1, "/kube/pod1")}
    assert not values(first, "process_cpus_allowed") and not values(third, "process_in_cgroup")


def test_a_wait_that_has_not_ended_is_counted_and_never_twice(going: Going) -> None:
    def at(schedstat: str, state: str = "R") -> float:
        seen = going.look(stat(7, 100, state=state, name="job"), files={"proc/7/schedstat": schedstat})
        return values(seen, "process_run_delay_seconds_total")["process:job[7]"][0]

    assert at("1000000 2000000000 56") == 2
    assert at("1000000 2000000000 56") == 7, "runnable, and had no turn in five seconds"
    assert at("1000000 2000000000 56") == 12
    assert at("1000500 12500000000 57") == 12.5, "now that it had one, the kernel has counted it too"
    assert at("5000000500 12500000000 57") == 12.5, "it ran all the time, and had no turn more"
    assert at("5000000500 12500000000 57", state="S") == 12.5


def test_no_more_than_so_many_are_asked_how_long_they_waited(going: Going) -> None:
    many = [stat(pid, pid, state="R") for pid in range(1, 201)]
    files = {f"proc/{pid}/schedstat": "5 5 5\n" for pid in range(1, 201)}
    for _ in range(2):
        told = values(going.look(*many, files=files), "process_run_delay_seconds_total")
        assert len(told) == _process_waits.FOLLOWED
        assert "process:a[1]" in told, "who used least and still is runnable comes first"


@pytest.mark.parametrize(
    ("schedstat", "why"),
    [("0 0 0\n", "this kernel does not count run delay: boot with delayacct"), (None, "no such file or directory")],
)
def test_a_kernel_that_does_not_count_is_blind(going: Going, schedstat: str | None, why: str) -> None:
    files = {"proc/7/schedstat": schedstat} if schedstat else {}
    assert unseen(going.look(stat(7, 5, state="R"), files=files), "process_run_delay_seconds_total") == [why]


def test_damaged_details_cost_their_own_answer_only(going: Going) -> None:
    seen = going.look(
        stat(7, state="R", threads=2, user=9),
        stat(8, state="D"),
        files={"proc/7/schedstat": "a b c", "proc/8/status": "x", "proc/7/task/7/stat": "7 (", "proc/7/status": ""},
    )
    assert values(seen, "processes") == {"node": (2, "")}
    assert unseen(seen, "process_run_delay_seconds_total") and unseen(seen, "process_blocked_seconds")
    assert unseen(seen, "thread_realtime_priority")


def test_real_time_is_told_of_a_process_or_of_the_thread_that_has_it(going: Going) -> None:
    seen = going.look(
        stat(7, 500, name="hog", cpu=1, priority=50, policy=1),
        stat(8, 400, name="java", threads=2),
        stat(9, name="asleep", priority=99, policy=1),
        files={
            "proc/8/task/8/stat": stat(8, 1, name="java", threads=2),
            "proc/8/task/81/stat": stat(81, 399, name="a\nb", threads=2, cpu=3, priority=7, policy=2),
        },
    )
    assert values(seen, "process_realtime_priority") == {"process:hog[7]": (50, "SCHED_FIFO 50")}
    assert values(seen, "thread_realtime_priority") == {"thread:a\nb[81]": (7, "SCHED_RR 7, of java[8]")}
    assert values(seen, "thread_realtime_cpu")["thread:a\nb[81]"][0] == 3
    assert values(seen, "thread_realtime_seconds_total")["thread:a\nb[81]"][0] == 3.99


def test_who_is_no_longer_real_time_is_said_to_be_so(going: Going) -> None:
    for _ in range(2):  # the second time it rests, which changes nothing
        going.look(stat(7, 500, priority=50, policy=1))
    assert values(going.look(stat(7, 900)), "process_realtime_priority") == {"process:a[7]": (0, "SCHED_OTHER")}
    assert not values(going.look(stat(7, 1300)), "process_realtime_priority")


def test_who_asked_to_come_last_is_not_followed(going: Going) -> None:
    files = {"proc/7/schedstat": "5 5 5\n", "proc/8/schedstat": "5 5 5\n", "proc/9/schedstat": "5 5 5\n"}
    seen = going.look(stat(7, 5, nice=-5), stat(8, 5, nice=10), stat(9, 5, policy=5), files=files)
    assert set(values(seen, "process_run_delay_seconds_total")) == {"process:a[7]"}


def test_nice_says_nothing_of_who_is_real_time(going: Going) -> None:
    """It was started with `nice`, and runs before everybody: on which core is what others wait for."""
    hog = stat(7, 500, priority=50, policy=1, nice=5, state="R", cpu=3)
    assert values(going.look(hog, files={"proc/7/schedstat": "5 5 5\n"}), "process_cpu")["process:a[7]"][0] == 3


MANY = 2 * _process_threads.READ + 50


def pool(look: int, **odd: str) -> dict[str, str]:
    """A process with many threads, all asleep but a few near the end of the list: their lines, and what they waited."""
    files = {}
    for tid in range(1_000, 1_000 + MANY):
        files[f"proc/7/task/{tid}/stat"] = odd.get(f"stat{tid}", stat(tid, 1, name="worker", state="S"))
        files[f"proc/7/task/{tid}/schedstat"] = odd.get(f"sched{tid}", "1000000 5 5\n")
    return {**files, "proc/7/task/7/stat": stat(7, 500 + look, name="java", threads=MANY)}


def test_all_threads_of_a_large_process_have_their_turn(going: Going) -> None:
    """The starved, the blocked and the real-time one are among the last; once met they are read in every sample."""
    starved, blocked, hog = 1_000 + MANY - 3, 1_000 + MANY - 2, 1_000 + MANY - 1
    unread, waited, stuck, realtime = [], [], [], []
    for look in range(7):
        odd = {
            f"stat{starved}": stat(starved, 1, name="heart", state="R", cpu=3),
            f"sched{starved}": f"1000000 {(look + 1) * 4_500_000_000} 5\n",
            f"stat{blocked}": stat(blocked, 1, name="disk", state="D"),
            f"stat{hog}": stat(hog, 100 * look, name="poll", priority=7, policy=2),
        }
        more = {f"proc/{starved}/cgroup": "0::/kubepods/pod1\n", f"proc/{starved}/status": status()}
        more |= {f"proc/{blocked}/status": status(), f"proc/{blocked}/wchan": "folio_wait_bit"}
        seen = going.look(stat(7, 500 * (look + 1), name="java", threads=MANY + 1), files={**pool(look, **odd), **more})
        unread.append(values(seen, "threads_unread")["node"][0])
        waited.append(values(seen, "task_run_delay_seconds_total").get(f"thread:heart[{starved}]", (0, ""))[0])
        stuck.append(values(seen, "process_blocked_seconds").get(f"thread:disk[{blocked}]", (0, ""))[0])
        realtime.append(values(seen, "thread_realtime_priority").get(f"thread:poll[{hog}]", (0, ""))[0])
    assert unread[0] == MANY + 1 - _process_threads.READ and unread[2:] == [0] * 5
    assert [it > 0 for it in waited] == [False, False, True, True, True, True, True]
    assert stuck[3:] == [5, 10, 15, 20] and realtime[2:] == [7] * 5
    assert values(seen, "process_in_cgroup")[f"thread:heart[{starved}]"][1] == "/kubepods/pod1"


def test_whose_children_used_most(going: Going) -> None:
    first = going.look(stat(1, children=900), stat(7, children=100))
    assert not values(first, "process_children_seconds_total"), "since birth tells nothing of now"
    seen = going.look(stat(1, children=900), stat(7, children=500), stat(8, children=3))
    told = [
        (it.subject, it.at, it.value)
        for it in seen
        if isinstance(it, Reading) and it.what == "process_children_seconds_total"
    ]
    assert told == [
        ("process:a[7]", 5, 1),
        ("process:a[7]", 10, 5),
        ("process:a[8]", 5, 0),
        ("process:a[8]", 10, 0.03),
    ]


def test_small_parsers() -> None:
    assert parse_schedstat("559752743 2136075119 56\n") == (0.559752743, 2.136075119, 56)
    assert (cores("0-3,8", "x"), cores("1", "x"), cores("", "x")) == ([0, 1, 2, 3, 8], [1], [])
    assert parse_turns(status(5)) == 12
    assert parse_group("1:cpu:/a:b\n0::/x\n") == "/a:b" and parse_group("0::/x\n") == "/x" and parse_group("") == ""
    for damaged in (lambda: cores("x", "x"), lambda: parse_status("x"), lambda: parse_turns("Name:\tx\n")):
        with pytest.raises(Unparsable):
            damaged()
