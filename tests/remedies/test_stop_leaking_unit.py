"""stop_leaking_unit stops what fails and leaves something behind, or is unused; other units are left alone."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.remedies.planned import finding, plan_for, plans
from tests.signs.test_crash_looping_unit import RUNS, WAITS, churn, restarts
from tests.signs.test_unused_agent import agent
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Finding, Plan, Reading
from zombiescope.core.timeline import Timeline

SIGNS = ("crash_looping_unit", "zombie_cgroups", "unused_agent")
SECONDS = 300
UNIT = "ecs.service"


def loop(text: str = WAITS, *, every: float = 1.0, active: float = 0.0, leaks: bool = True) -> list[Reading]:
    """Restarted every so many seconds; each run leaves one dying cgroup, or none."""
    made = [int(second / every) for second in range(SECONDS + 1)]
    # Dying for another reason too: a thousand more within the recording.
    others = v1([5000.0 + second * 3 + made[second] for second in range(SECONDS + 1)])
    runs = [read("unit_active", f"unit:{UNIT}", active, float(at)) for at in range(0, SECONDS + 1, 5)]
    counts = restarts([float(made[second]) + 9 for second in range(0, SECONDS + 1, 5)], text=text)
    return [*counts, *churn(UNIT, made, [0] * len(made) if leaks else made), *others, *runs]


def planned(*readings: Reading) -> Plan:
    (plan,) = plans(node(readings), "stop_leaking_unit", *SIGNS)
    assert plan.risk == "safe" and plan.proof == ("crash_looping_unit",)
    return plan


def orders(plan: Plan) -> list[tuple[str, ...]]:
    return [step.argv[:2] for step in plan.steps if step.argv]


def test_one_that_fails_and_leaves_its_cgroups_behind_is_stopped_and_masked() -> None:
    assert orders(planned(*loop())) == [("systemctl", "stop"), ("systemctl", "disable"), ("systemctl", "mask")]


@pytest.mark.parametrize(("runs", "stopped"), [(12, True), (5, True), (4, False)])
def test_its_own_cgroups_decide_however_few_are_dying_on_the_node(runs: int, stopped: bool) -> None:
    """The last few may only not be freed yet."""
    made = list(range(runs + 1))
    counts = restarts([float(it) for it in made], text=WAITS)
    plan = planned(*counts, *churn(UNIT, made, [0] * len(made)), *v1([30.0 + it for it in made]))
    assert plan.advice is not stopped


def test_where_releases_are_not_seen_none_of_its_cgroups_was_seen_to_stay() -> None:
    """The kernel may have freed every one: only names in the tree were compared."""
    releases = "cgroup_releases_total"
    seen = node([it for it in loop() if it.what != releases], unseen={releases: "not allowed"})
    (plan,) = plans(seen, "stop_leaking_unit", *SIGNS)
    assert plan.advice and "none of its cgroups was seen to stay behind" in plan.steps[0].says


OOM = "activating (auto-restart), NRestarts=9, Result=oom-kill, ExecMainStatus=9"
ENDS = "activating (auto-restart), NRestarts=9, Result=success, ExecMainStatus=0"


@pytest.mark.parametrize(
    ("readings", "says"),
    [
        (loop(ENDS), "it ends with success, so it restarts on purpose"),
        (loop("activating (auto-restart), NRestarts=9"), "how it ends was not seen"),
        (loop(OOM, every=60.0, active=1.0), "it is OOM-killed, and works in between"),
        (loop(RUNS, every=90.0, active=1.0), "it fails, but runs for"),
        (loop(leaks=False), "none of its cgroups was seen to stay behind"),
        (
            [*loop(), read("unit_file", f"unit:{UNIT}", 1, 0.0, f"/run/systemd/transient/{UNIT}")],
            "its file /run/systemd/transient/ecs.service is generated",
        ),
    ],
    ids=["a worker", "not seen", "OOM-killed now and then", "works for minutes", "leaves nothing", "transient"],
)
def test_whatever_else_restarts_is_left_alone_with_advice(readings: list[Reading], says: str) -> None:
    plan = planned(*readings)
    assert plan.advice and says in plan.steps[0].says


@pytest.mark.parametrize(
    ("every", "active", "works"), [(60.0, 1.0, True), (50.0, 1.0, False), (60.0, 0.5, True), (60.0, 0.4, False)]
)
def test_a_minute_between_two_restarts_most_of_it_active_may_be_work(every: float, active: float, works: bool) -> None:
    plan = planned(*loop(RUNS, every=every, active=active))
    assert ("it fails, but runs for 60.0 s on average" in plan.steps[0].says) == works
    unseen = planned(*(it for it in loop(RUNS, every=every, active=active) if it.what != "unit_active"))
    assert "runs for" not in unseen.steps[0].says, "whether it was active is not known"


def test_a_worker_that_failed_once_among_many_successes_is_left_alone() -> None:
    failed = read("unit_restarts_total", f"unit:{UNIT}", 9, -5.0, WAITS)
    assert planned(failed, *loop(ENDS)).advice


def test_a_unit_that_has_not_restarted_while_it_was_recorded_ran_all_the_time() -> None:
    """Ninety seconds without a restart are one run, not half of one."""
    steady = [read("unit_restarts_total", f"unit:{UNIT}", 9, float(at), RUNS) for at in range(0, 91, 5)]
    active = [read("unit_active", f"unit:{UNIT}", 1, float(at)) for at in range(0, 91, 5)]
    seen = finding("crash_looping_unit", f"unit:{UNIT}", steady[0])
    plan = plan_for(seen, "stop_leaking_unit", node([*steady, *active]))
    assert plan is not None and "runs for 90.0 s on average" in plan.steps[0].says


def test_an_unused_agent_that_fails_is_stopped_though_it_leaves_nothing() -> None:
    unused = [it for it in agent(unit=UNIT) if not it.what.startswith("unit_")]
    assert orders(planned(*loop(leaks=False), *unused))[0] == ("systemctl", "stop")


def test_one_that_is_needed_gets_a_start_limit_and_is_never_stopped() -> None:
    """RestartPreventExitStatus= would stop it at its first exit."""
    plan = planned(*loop(), read("unit_needed_by", f"unit:{UNIT}", 1, 0.0, "docker.service"))
    drop_in, reload = plan.steps
    assert drop_in.stdin == "[Unit]\nStartLimitIntervalSec=3600\nStartLimitBurst=5\n"
    assert reload.argv == ("systemctl", "daemon-reload") and "needed by docker.service" in drop_in.says


def test_an_administrator_s_own_is_not_masked() -> None:
    plan = planned(*loop(), read("unit_file", f"unit:{UNIT}", 1, 0.0, f"/etc/systemd/system/{UNIT}"))
    assert plan.steps[0].stdin == "[Service]\nRestart=no\n" and ("systemctl", "mask") not in orders(plan)


@pytest.mark.parametrize(
    "name",
    ["a\nb.service", "a b.service", "../x.service", "%n.service", "x" * 300 + ".service", "é.service", ".."],
)
def test_a_name_that_systemd_would_not_accept_has_no_command(name: str) -> None:
    (step,) = planned_for(name).steps
    assert not step.argv and step.says.startswith("no command is given, because systemd has no unit of the name")


def test_only_services_are_stopped() -> None:
    assert plan_for(restarting("x.timer"), "stop_leaking_unit", Timeline()) is None


def restarting(name: str) -> Finding:
    return finding("crash_looping_unit", f"unit:{name}", read("unit_restarts_total", f"unit:{name}", 9, 0.0, WAITS))


def planned_for(name: str) -> Plan:
    plan = plan_for(restarting(name), "stop_leaking_unit", Timeline())
    assert plan is not None
    return plan
