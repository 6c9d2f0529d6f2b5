"""crash_looping_unit and its laws: found by count, by waiting, from the log; blamed for its own dead and no others."""

from __future__ import annotations

import pytest
from tests.nodes import T0, node, read
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading, Span
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import (
    cgroup_churn_to_zombie_cgroups,
    crash_looping_unit_to_cgroup_churn,
    crash_looping_unit_to_zombie_cgroups,
)
from zombiescope.signs import cgroup_churn, crash_looping_unit, zombie_cgroups

ECS, FALSE = "ecs.service", "false.service"
WAITS = "activating (auto-restart), NRestarts=9, Result=exit-code, ExecMainStatus=1"
RUNS = "active (running), NRestarts=9, Result=exit-code, ExecMainStatus=1"


def restarts(totals: list[float], unit: str = ECS, text: str = WAITS, every: float = 5.0) -> list[Reading]:
    """systemd's count at each look, and where its cgroup is."""
    seen = [read("unit_restarts_total", f"unit:{unit}", total, every * at, text) for at, total in enumerate(totals)]
    policy = "restarted whenever it ends, forever: its start limit is switched off"
    return [
        *seen,
        read("unit_cgroup", f"unit:{unit}", 1, 0, f"/system.slice/{unit}"),
        read("unit_loops_for_ever", f"unit:{unit}", 1, 0, policy),
    ]


def churn(unit: str, removed: list[int], released: list[int], below: str = "") -> list[Reading]:
    """Births, removals and releases of a unit's cgroup, once a second."""
    path = f"/system.slice/{unit}{below}"
    columns = {"cgroup_births_total": removed, "cgroup_removals_total": removed, "cgroup_releases_total": released}
    return [
        read(what, f"family:{path}", total, at, path)
        for what, totals in columns.items()
        for at, total in enumerate(totals)
    ]


def case(readings: list[Reading], unseen: dict[str, str] | None = None) -> Case:
    given = {reading.what for reading in readings}
    missing = {} if "cgroup_releases_total" in given else {"cgroup_releases_total": "not allowed"}
    signs = {it.__name__.rpartition(".")[2]: it for it in (crash_looping_unit, cgroup_churn, zombie_cgroups)}
    laws = (
        cgroup_churn_to_zombie_cgroups,
        crash_looping_unit_to_cgroup_churn,
        crash_looping_unit_to_zombie_cgroups,
    )
    named = {law.__name__.rpartition(".")[2]: law for law in laws}
    return examine(node(readings, unseen=missing | (unseen or {})), signs=signs, laws=named)


def loops(readings: list[Reading], unseen: dict[str, str] | None = None) -> list[str]:
    return [it.says for it in case(readings, unseen).findings if it.sign == "crash_looping_unit"]


def test_a_fast_loop_is_found_within_ten_seconds_with_all_that_matters() -> None:
    (says,) = loops(restarts([4, 310, 620]))
    assert says.startswith("keeps crashing: 616 restarts in 10.0 s (62 a second), 620 in all, last exit code 1, ")
    assert "its start limit is switched off" in says
    (found,) = case(restarts([4, 310, 620])).findings
    assert found.subject == "unit:ecs.service" and found.evidence[1].text == WAITS
    assert {it.what for it in found.evidence} == {"unit_restarts_total", "unit_loops_for_ever", "unit_cgroup"}


@pytest.mark.parametrize(
    ("totals", "text", "every"),
    [([0, 1, 2, 3], RUNS, 100.0), ([5000, 5001, 5001], RUNS, 5.0), ([6, 6, 6], WAITS, 5.0)],
    ids=["three in five minutes", "one more of 5,000", "waits for its seventh"],
)
def test_slow_loops(totals: list[float], text: str, every: float) -> None:
    assert len(loops(restarts(totals, text=text, every=every))) == 1


@pytest.mark.parametrize(
    ("totals", "text", "every"),
    [
        ([0, 0, 0], RUNS, 5.0),
        ([5000, 5000, 5000], RUNS, 5.0),
        ([0, 1, 2], RUNS, 5.0),
        ([1, 1, 1], WAITS, 5.0),
        ([0, 1, 2, 3, 4], RUNS, 3600.0),
        ([30, 30, 31, 31], RUNS, 3600.0),
        ([30, 30, 30, 30], WAITS, 3600.0),
    ],
    ids=[
        *("never", "long ago", "waits for another at boot", "its first failure", "once an hour"),
        *("once a day", "waits, after a quiet hour"),
    ],
)
def test_silent(totals: list[float], text: str, every: float) -> None:
    assert not loops(restarts(totals, text=text, every=every))


def test_a_short_loop_in_a_long_recording_has_its_own_span_and_pace() -> None:
    quiet, loop = [3.0] * 700, [3.0 + 4 * n for n in range(1, 13)]
    counted = restarts([*quiet, *loop, *([51.0] * 700)], text=RUNS)
    (found,) = case(counted).findings
    assert found.span.seconds == 60.0 and "48 restarts in 60.0 s (48 a minute)" in found.says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("active (running), NRestarts=5, Result=success, ExecMainStatus=0", "keeps restarting: "),
        ("active (running), NRestarts=5", "keeps restarting: "),
        ("activating (auto-restart), NRestarts=5, Result=signal, ExecMainStatus=9", "last ended by signal 9"),
        ("activating (auto-restart), NRestarts=5, Result=timeout, ExecMainStatus=0", "last result timeout"),
    ],
    ids=["with success", "not known", "a signal", "a timeout"],
)
def test_how_it_last_ended(text: str, says: str) -> None:
    (found,) = case(restarts([0, 5, 10], text=text)).findings
    assert says in found.says and ("crashing" in found.says) == ("Result=" in text and "success" not in text)


def test_a_loop_that_its_start_limit_ended_has_an_end() -> None:
    (found,) = case(restarts([0, 0, 5, 5, 5], text="failed (failed), NRestarts=5, Result=exit-code")).findings
    assert found.span == Span(T0, T0 + 10)


def test_a_loop_that_somebody_stopped_ends_with_its_last_restart() -> None:
    """A masked unit is not counted any more: its last state must not hold for ever."""
    counted = restarts([float(it) for it in range(10)])
    later = read("unit_restarts_total", f"unit:{FALSE}", 0.0, 400.0)
    stopped = read("unit_active", f"unit:{ECS}", 0.0, 50.0, "not loaded")
    (waits,), (found,) = (case([*counted, *more]).findings for more in ([later], [stopped, later]))
    assert [it.span.end - it.span.start for it in (waits, found)] == [400, 45]


def test_clear_says_who_restarted_most() -> None:
    verdict = case(restarts([2, 2])).verdicts[0]
    assert (
        verdict.state == "clear" and "most restarted: ecs.service, 2 times in all" in verdict.says and verdict.evidence
    )


LOGGED = "systemd[1]: ecs.service: Scheduled restart job, restart counter is at {}."


def test_where_systemd_cannot_be_asked_its_log_tells_and_silence_is_blind() -> None:
    lines = [read("kernel_log", "node", 6, 10.0 * n, LOGGED.format(40 + n)) for n in range(5)]
    away = {"unit_restarts_total": "systemd's bus is away"}
    (says,) = loops(lines, away)
    assert "keeps restarting: 5 restarts logged in 40.0 s (6 a minute), 44 in all" in says
    quiet = case([read("kernel_log", "node", 6, 0, "eth0: link up")], away).verdicts[0]
    assert quiet.state == "blind" and "systemd's bus is away" in quiet.says
    assert case(lines[:2], away).verdicts[0].state == "blind", "two restarts are no loop, and no proof of none"


SEEN = [0, 60, 120, 180, 240, 300]
DEAD = [1500.0 + it for it in SEEN]


def links(result: Case) -> dict[str, list[str]]:
    return {f"{it.law} {it.cause.subject}": [ground.kind for ground in it.grounds] for it in result.links}


def test_a_leaking_loop_is_the_root_with_its_dose() -> None:
    result = case([*restarts([7, 307]), *churn(ECS, SEEN, [0] * 6), *v1(DEAD)])
    assert [it.sign for it in result.chains[0]] == ["crash_looping_unit", "zombie_cgroups"]
    assert [it.subject for it in result.root_causes] == ["unit:ecs.service"]
    (link,) = (it for it in result.links if it.law == "crash_looping_unit_to_zombie_cgroups")
    assert [it.kind for it in link.grounds] == ["place", "dose"]
    assert "300 restarts, 300 more dying" in link.grounds[1].says and len(link.grounds[1].evidence) == 4
    assert "the kernel still holds 300 of its own 300 removed cgroups" in link.grounds[0].says


@pytest.mark.parametrize(
    ("grown", "held", "blamed"), [(0, 300, True), (-50, 300, True), (0, 19, False), (40, 300, True)]
)
def test_a_loop_leaks_although_the_kernel_frees_others_meanwhile(grown: int, held: int, blamed: bool) -> None:
    kept = [*restarts([7, 7 + held]), *churn(ECS, [held * it // 300 for it in SEEN], [0] * 6)]
    result = case([*kept, *v1([9000.0 + grown * it / 300 for it in SEEN])])
    found = [it for it in result.links if it.law == "crash_looping_unit_to_zombie_cgroups"]
    says = f"{held} restarts, {held} of its cgroups still held; others were freed meanwhile"
    assert [it.says for link in found for it in link.grounds if it.kind == "dose"] == [says] * blamed


def test_a_loop_that_leaves_nothing_is_not_blamed_even_while_another_leaks() -> None:
    both = [*restarts([7, 307], FALSE), *churn(FALSE, SEEN, [0, 50, 110, 170, 230, 290])]
    other = [*churn("agent.service", SEEN, [0] * 6, below="/5f0c"), *v1(DEAD)]
    told = links(case([*both, *other]))
    assert told == {"cgroup_churn_to_zombie_cgroups family:/system.slice/agent.service/5f0c": ["dose"]}
    (blamed,) = (chain for chain in case([*both, *other]).chains if chain[-1].sign == "zombie_cgroups")
    assert blamed[0].subject == "family:/system.slice/agent.service/5f0c"


def test_a_loop_whose_cgroups_were_never_seen_to_go_is_not_blamed() -> None:
    """Without memory accounting a unit has no memory cgroup to leave."""
    result = case([*restarts([7, 307]), *churn("agent.service", SEEN, [0] * 6), *v1(DEAD)])
    assert not any("crash" in it for it in links(result))


def test_of_two_loops_the_leaking_one_is_blamed() -> None:
    leaks = [*restarts([7, 307]), *churn(ECS, SEEN, [0] * 6)]
    innocent = [*restarts([7, 307], FALSE), *churn(FALSE, SEEN, SEEN)]
    told = links(case([*leaks, *innocent, *v1(DEAD)]))
    assert "crash_looping_unit_to_zombie_cgroups unit:ecs.service" in told
    assert "crash_looping_unit_to_zombie_cgroups unit:false.service" not in told


def test_a_name_that_begins_alike_is_another_unit() -> None:
    result = case([*restarts([7, 307], "ecs.service"), *churn("ecs.service2", SEEN, [0] * 6), *v1(DEAD)])
    assert not any("crash" in it for it in links(result))


def test_what_is_made_below_the_unit_is_the_units() -> None:
    told = links(case([*restarts([7, 307]), *churn(ECS, SEEN, [0] * 6, below="/run"), *v1(DEAD)]))
    assert told["crash_looping_unit_to_zombie_cgroups unit:ecs.service"] == ["place", "dose"]


@pytest.mark.parametrize(("grown", "blamed"), [(300, True), (0, False), (5000, False), (40, False)])
def test_without_tracing_the_dose_decides(grown: int, blamed: bool) -> None:
    told = links(case([*restarts([7, 307]), *v1([1500 + grown * step / 10 for step in range(11)])]))
    assert ("crash_looping_unit_to_zombie_cgroups unit:ecs.service" in told) == blamed
