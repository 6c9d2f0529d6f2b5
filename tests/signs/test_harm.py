"""What each sign says that its finding costs: figures from what it measured, unknown where nothing was."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.core.test_samples import WALK
from tests.diagnosis.incident import incident
from tests.nodes import cores, node, read
from tests.signs import test_blocked_tasks as blocked
from tests.signs import test_cgroup_churn as churn
from tests.signs import test_cgroup_walker as walker
from tests.signs import test_conntrack_full as conntrack
from tests.signs import test_cpu_throttling as throttling
from tests.signs import test_crash_looping_unit as loop
from tests.signs import test_defunct_processes as defunct
from tests.signs import test_direct_reclaim as reclaim
from tests.signs import test_driver_reset as reset
from tests.signs import test_empty_scopes as scopes
from tests.signs import test_fork_storm as forks
from tests.signs import test_interrupts as interrupts
from tests.signs import test_job_failure as jobs
from tests.signs import test_kernel_tables as tables
from tests.signs import test_oom_kill as oom
from tests.signs import test_page_fault_storm as faults
from tests.signs import test_realtime_hog as hog
from tests.signs import test_slow_stat_read as slow
from tests.signs import test_soft_lockup as lockup
from tests.signs import test_starved_softirq as softirq
from tests.signs import test_starved_thread as starved
from tests.signs import test_stolen_cpu as stolen
from tests.signs import test_unused_agent as agent
from tests.signs import test_zombie_cgroups as zombies

import zombiescope
from zombiescope.core import Case, Reading
from zombiescope.core.harm import Harm
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy, names
from zombiescope.signs import job_failure, mount_explosion, saturated_core, slab_bloat

PACKAGE = Path(zombiescope.__file__).parent
WELL = "active (running), NRestarts=9, Result=success, ExecMainStatus=0"
UNSAID = "activating (auto-restart), NRestarts=9"
DUMPED = [f"{reset.ENA}Trigger reset is on"]
STUCK = "nf_conntrack: nf_conntrack: table full, dropping packet"


def of(case: Case) -> Harm:
    return case.findings[0].harm


def waits_on(cpu: int, share: float, who: str = "process:web[9]") -> list[Reading]:
    """A process that waits for one core, read every five seconds."""
    return [
        it
        for at in (0.0, 5.0, 10.0)
        for it in (
            read("process_run_delay_seconds_total", who, 10 + share * at, at),
            read("process_cpu", who, cpu, at),
        )
    ]


def only(sign: str, *readings: list[Reading]) -> Harm:
    signs = {sign: healthy("signs")[sign]}
    return of(examine(node([it for part in readings for it in part]), signs=signs, laws={}))


def hogging(*more: Reading) -> Harm:
    timeline = hog.hog(0.95)
    series = [timeline.series(what, it) for what in timeline.whats() for it in timeline.subjects(what)]
    readings = [one.reading(place) for one in series for place in range(len(one))]
    return only("realtime_hog", readings, list(more))


THREE = [it for pid in (7, 8, 9) for it in blocked.blocked(pid, 0, 5, 10)]
FULL = starved.case(starved.waits(0.96, 0.04), running=6)
ASLEEP = softirq.case(softirq.thread("ksoftirqd/1", [0.9] * 8, [0.01] * 8))
AT_LIMIT = reclaim.case(reclaim.waiting(*[0.8] * 8), reclaim.hits(5000.0), reclaim.busy())
WAITED = {
    "cpu_throttling": (of(throttling.case(0.9, 0.7)), 0.7, "cgroup:/kubepods/pod1"),
    "starved_thread": (of(starved.case(starved.waits(0.94, 0.05))), 0.94, "process:job[7]"),
    "starved_thread on a full node": (of(FULL), 1 / 3 - 0.04, "process:job[7]"),
    "starved_softirq": (of(ASLEEP), 0.9, "thread:ksoftirqd/1"),
    "soft_lockup": (of(lockup.case((30.0, lockup.soft(3, 22)))), 1.0, "cpu:3"),
    "stolen_cpu": (of(stolen.case({0: [{"steal": 0.4}] * 40, 1: [{}] * 40})), 0.4, "cpu:0"),
    "stolen_cpu on every core": (of(stolen.case({cpu: [{"steal": 0.4}] * 40 for cpu in (0, 1)})), 0.8, "cpu:0"),
    "blocked_tasks": (of(blocked.case(THREE)), 3.0, "process:nfs[7]"),
    "direct_reclaim": (of(AT_LIMIT), 1.6, reclaim.POD),
}


@pytest.mark.parametrize(("harm", "cores_lost", "whom"), WAITED.values(), ids=WAITED)
def test_waited(harm: Harm, cores_lost: float, whom: str) -> None:
    assert harm.waited_cores == pytest.approx(cores_lost, rel=0.05) and not harm.unknown
    assert whom.partition("[")[0].partition(":")[0] == harm.whom[0].partition(":")[0]


BROKEN = {
    "driver_reset": (reset.found(reset.log(reset.EPISODE))[0].harm, {"resets": 1}),
    "driver_reset by its counter": (reset.found(reset.counted("nic_resets_total", [3, 3, 5]))[0].harm, {"resets": 2}),
    "oom_kill": (of(oom.case(oom.log(oom.why(7), oom.killed(7), oom.killed(8)))), {"kills": 2}),
    "oom_kill by the kernel's count": (of(oom.case(oom.kills(3, 3, 5))), {"kills": 2}),
    "job_failure": (
        of(examine(node([jobs.given_up()]), signs={"job_failure": job_failure}, laws={})),
        {"jobs": 1},
    ),
    "conntrack_full": (of(conntrack.case(conntrack.table(1000, 1000, drops=(0, 70)))), {"drops": 70}),
    "conntrack_full by the log": (of(conntrack.case(conntrack.log((0.0, STUCK), (5.0, STUCK)))), {"drops": 2}),
    "crash_looping_unit": (of(loop.case(loop.restarts([0, 20, 40]))), {"crashes": 40}),
    "unused_agent": (
        agent.case([*agent.agent(), *agent.restarts(5, 9, text=loop.WAITS)]).findings[0].harm,
        {"crashes": 4},
    ),
}


@pytest.mark.parametrize(("harm", "kinds"), BROKEN.values(), ids=BROKEN)
def test_broken(harm: Harm, kinds: dict[str, int]) -> None:
    assert dict(harm.broken) == kinds and not harm.unknown


def test_a_worker_that_ends_well_after_each_job_is_noted() -> None:
    case = loop.case(loop.restarts([0, 20, 40], text=WELL))
    assert [it.sign for it in case.noted] == ["crash_looping_unit"] and not case.root_causes
    assert of(loop.case(loop.restarts([0, 20, 40], text=UNSAID))).unknown == ("broken",)


def test_a_transmit_that_was_late_is_waited_for_and_breaks_nothing() -> None:
    harm = reset.found(reset.log([reset.WATCHDOG], begin=6.0))[0].harm
    assert not harm.broken and (harm.waited_cores, harm.whom) == (1.0, ("nic:zslab9",))


def test_a_walker_burns_what_its_stacks_show_and_says_who_waited_for_it() -> None:
    unknown = of(walker.case(walker.samples("kubelet[8]", WALK, 0.5)))
    assert unknown.burnt_cores == pytest.approx(0.5, rel=0.02) and unknown.parts[0].contended is None
    (found,) = [it for it in examine(incident()).findings if it.sign == "cgroup_walker"][:1]
    assert found.harm.burnt_cores == pytest.approx(0.97, rel=0.02), "of cpu 3, while it walked"
    assert found.harm.parts[0].within == ("cpu:3",) and (found.harm.parts[0].contended or 0.0) > 0.9


@pytest.mark.parametrize(("cpu", "contended"), [(1, 0.8), (0, 0.0)], ids=["of the same core", "of another core"])
def test_a_hog_harms_only_who_waits_for_its_core(cpu: int, contended: float) -> None:
    harm = hogging(*waits_on(cpu, 0.8))
    assert harm.burnt_cores == pytest.approx(0.95) and harm.parts[0].contended == pytest.approx(contended)


def test_who_waits_for_a_hog_is_not_known_where_nobody_was_followed() -> None:
    assert hogging().parts[0].contended is None


@pytest.mark.parametrize(("waited", "accused"), [(0.0, False), (0.5, True)], ids=["nobody waits", "a process waits"])
def test_a_saturated_core_that_nobody_waits_for_is_noted(waited: float, accused: bool) -> None:
    """As io_uring, vhost or a packet poller fill a core."""
    busy = cores({0: [{"system": 0.98}] * 40, 1: [{}] * 40})
    case = examine(node([*busy, *waits_on(0, waited)]), signs={"saturated_core": saturated_core}, laws={})
    assert of(case).burnt_cores == pytest.approx(0.98) and bool(case.problems) is accused
    assert bool(case.noted) is not accused


def test_packets_that_a_core_drops_are_broken() -> None:
    lost = [read("softnet_dropped_total", "cpu:1", value, at) for at, value in ((0.0, 5.0), (4.0, 105.0), (7.0, 405.0))]
    case = interrupts.case({0: interrupts.SENDER, 1: interrupts.FLOOD}, (200.0, 21_000.0), lost)
    assert {it.sign: dict(it.harm.broken) for it in case.findings} == {
        "irq_pile_up": {"drops": 400},
        "softirq_storm": {"drops": 400},
    }


def test_storms_burn_what_was_measured_while_others_wait() -> None:
    children = [read("process_children_seconds_total", "process:sh[7]", 10 + at, at) for at in (0.0, 4.0, 8.0)]
    pressure = [read("pressure_cpu_waiting_seconds_total", "node", 0.5 * at, at) for at in (0.0, 4.0, 8.0)]
    harm = of(forks.case(2500, more=(*children, *pressure)))
    assert harm.burnt_cores == pytest.approx(1.0) and (harm.parts[0].contended or 0.0) > 0.4
    assert of(forks.case(2500)).unknown == ("burnt",)
    assert of(faults.case(200_000, {"system": 0.9, "user": 0.05})).burnt_cores == pytest.approx(1.8)


def test_what_grows_says_when_it_reaches_its_limit() -> None:
    assert of(defunct.case(defunct.left(50, 70))).soon_seconds == pytest.approx((32_768 - 70) / 4)
    assert of(defunct.case(defunct.left(70, 70))).soon_seconds is None
    assert of(scopes.case(300, 450)).limit.startswith("systemd's limit of 131,072 units in ")
    leak = zombies.only(node(zombies.v1([2_000.0, 2_100.0, 2_200.0]))).harm
    assert leak.soon_seconds is not None and leak.limit.startswith("70,000 dying cgroups in ")


def test_what_holds_memory_says_how_much() -> None:
    slab = of(tables.case(slab_bloat, tables.slabs(8e9)))
    assert slab.held_bytes == 8e9 and not slab.unknown
    assert zombies.only(node(zombies.v1([70_240.0, 70_240.0]))).harm.held_bytes == pytest.approx(70_000 * 14_500)
    made = of(churn.case(churn.churn(churn.LOOP, churn.LOOP, [0] * 7)))
    assert made.held_bytes == pytest.approx(24 * 14_500)


def test_where_nothing_measured_it_the_figure_is_unknown_and_not_zero() -> None:
    assert of(slow.case(0.5, 0.6, 70_000)).unknown == ("burnt",), "no stacks: who reads such files is not known"
    assert of(tables.case(mount_explosion, tables.mounts(5_000))).unknown[:1] == ("burnt",)
    assert of(lockup.case((1.0, "rcu: INFO: rcu_sched self-detected stall on CPU"))).unknown == ("waited",)


@pytest.mark.parametrize("name", names("signs"))
def test_every_finding_of_ours_says_what_it_costs(name: str) -> None:
    """One that does not would leave a report NOT SURE."""
    tree = ast.parse((PACKAGE / "signs" / f"{name}.py").read_text())
    calls = [it for it in ast.walk(tree) if isinstance(it, ast.Call) and ast.unparse(it.func) == "Finding"]
    assert calls and all("harm" in [word.arg for word in it.keywords] for it in calls)
