"""A cure is proved only where the same signs looked all the time and came back clear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.diagnosis.incident import SECONDS, card, incident, resets, within
from tests.nodes import T0, cores, node, read
from tests.signs.test_starved_softirq import thread
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.treatment.prove import Examined, Proof, prove

LATER = SECONDS + 30.0
ECS = "unit:ecs.service"


def often(what: str, value: float, every: int = 5, subject: str = "node", text: str = "") -> list[Reading]:
    return [read(what, subject, value, float(at), text) for at in range(0, SECONDS + 1, every)]


def quick_reads() -> list[Reading]:
    file = "file:/sys/fs/cgroup/memory/memory.stat"
    return [*often("stat_read_seconds", 1e-4, 10, file), *often("stat_read_cpu_seconds", 5e-5, 10, file)]


def later(
    *,
    grows: float = 0.0,
    without: str = "",
    extra: list[Reading] | None = None,
    unseen: tuple[float, float] = (0.0, 0.0),
) -> Timeline:
    """Two minutes after the cure: everything is looked at and well; or one part is not, or none for some seconds."""
    parts = {
        "units": often("unit_restarts_total", 0, subject=ECS),
        "dead": v1([68_620.0 + grows * second for second in range(SECONDS + 1)]),
        "cores": cores({core: [{"user": 0.02}] * SECONDS for core in range(8)}, every=1.0),
        "threads": thread("ksoftirqd/3", [0.001] * SECONDS, [0.002] * SECONDS),
        "card": card(),
        "log": often("kernel_log", 6, 1, text="all is well"),
        "ray": often("ray_event", 0, subject="raynode:x"),
        "stacks": [*often("samples_total", 0), *often("kernel_symbols", 1)],
        "reads": quick_reads(),
    }
    readings = [it for name, part in parts.items() if name != without for it in [*part]]
    readings = [it for it in [*readings, *(extra or [])] if not T0 + unseen[0] < it.at < T0 + unseen[1]]
    return node([replace(it, at=it.at + LATER) for it in readings])


def proved(after: Timeline, cured: str = ECS, *, earlier: Sequence[Reading] = (), window: float | None = None) -> Proof:
    timeline = incident(extra=[*quick_reads(), *earlier])
    before = Examined(examine(timeline), timeline)
    found = [it for it in before.case.findings if it.subject == cured]
    assert found
    return prove(before, Examined(examine(after), after), found, (found[0].sign,), window)


def said(proof: Proof, name: str) -> str:
    return next(check.says for check in proof.checks if check.name.split(" of ")[0] == name)


def states(proof: Proof) -> dict[str, str]:
    return {check.name.split(" of ")[0]: check.state for check in proof.checks}


def test_all_that_followed_is_gone_so_the_cure_is_proved_and_is_an_experiment() -> None:
    proof = proved(later())
    assert proof.state == "proved", states(proof)
    assert {
        "crash_looping_unit",
        "cgroup_walker",
        "saturated_core",
        "starved_softirq",
        "driver_reset",
        "job_failure",
    } <= {*states(proof)}
    tried = {link.law for link in proof.case.links for it in link.grounds if it.kind == "experiment"}
    assert {"crash_looping_unit_to_zombie_cgroups", "starved_softirq_to_driver_reset"} <= tried
    assert all(it.evidence for link in proof.case.links for it in link.grounds)
    says = {link.law: it.says for link in proof.case.links for it in link.grounds if it.kind == "experiment"}
    assert says["crash_looping_unit_to_zombie_cgroups"] == (
        "crash_looping_unit of unit:ecs.service taken away, no more came for 2 min"
    )
    assert says["starved_softirq_to_driver_reset"].endswith("taken away, driver_reset was gone for 2 min")

    grounds = [it for link in proof.case.links for it in link.grounds if it.kind == "experiment"]
    assert all(len(it.evidence) == 2 for it in grounds), "how it was before, and how it is now"
    now = {verdict.sign: verdict.evidence for verdict in examine(later()).verdicts}
    for link in proof.case.links:
        for ground in link.grounds:
            if ground.kind == "experiment":
                assert ground.evidence == (link.effect.evidence[0], now[link.effect.sign][0]), "of the effect itself"


def test_a_source_that_could_not_be_read_for_a_while_is_a_gap() -> None:
    whole = later()
    series = [whole.series(what, subject) for what in whole.whats() for subject in whole.subjects(what)]
    looks = {what: whole.looks(what) for what in whole.looked_for()}
    log = looks["kernel_log"]
    failed = (log.at > T0 + LATER + 40) & (log.at < T0 + LATER + 100)
    looks["kernel_log"] = replace(log, values=np.where(failed, 0.0, log.values))
    assert states(proved(Timeline(series, looks)))["was looked at all the time"] == "blind"


def test_a_source_that_is_read_once_has_no_gap() -> None:
    once = [it for it in quick_reads() if it.at == T0 + 60]
    assert states(proved(later(without="reads", extra=once)))["was looked at all the time"] == "held"


@pytest.mark.parametrize("without", ["units", "dead", "cores", "threads", "log", "ray", "stacks", "reads"])
def test_what_nobody_looked_at_cannot_be_told(without: str) -> None:
    proof = proved(later(without=without))
    assert proof.state == "cannot tell" and "failed" not in states(proof).values()
    assert not [it for link in proof.case.links for it in link.grounds if it.kind == "experiment"]


def test_a_leak_that_goes_on_is_not_proved_though_its_suspect_is_stopped() -> None:
    proof = proved(later(grows=1.0))
    assert proof.state == "not proved"
    assert states(proof)["dying memory cgroups do not grow"] == "failed"


def test_a_few_that_come_and_stay_are_no_leak() -> None:
    assert proved(later(grows=10 / SECONDS)).state == "proved"


def test_a_reset_after_the_cure_speaks_against_it() -> None:
    assert states(proved(later(extra=resets())))["driver_reset"] == "failed"


def test_a_reset_before_the_cure_that_the_log_still_holds_does_not() -> None:
    whole = later()
    old = node(resets()).series("kernel_log")  # told in the window's first look, of a time before it
    series = [whole.series(what, subject) for what in whole.whats() for subject in whole.subjects(what)]
    looks = {what: whole.looks(what) for what in whole.looked_for()}
    after = Timeline([it for it in series if it.what != "kernel_log"] + [replace(old, until=whole.span.end)], looks)
    assert [it.sign for it in examine(after).findings if it.sign == "driver_reset"]
    assert proved(after).state == "proved"


def test_the_same_unit_looping_again_is_not_proved() -> None:
    again = [read("unit_restarts_total", ECS, float(at), float(at)) for at in range(0, SECONDS + 1, 5)]
    after = later(without="units", extra=again)
    proof = proved(after)
    assert proof.state == "not proved" and states(proof)["crash_looping_unit"] == "failed"
    (check,) = (it for it in proof.checks if it.name.startswith("crash_looping_unit"))
    (found,) = (it for it in examine(after).findings if it.sign == "crash_looping_unit")
    assert check.after == found.evidence[0] != found.evidence[1], "it is shown what was seen"


def other_unit() -> list[Reading]:
    return [read("unit_restarts_total", "unit:other.service", float(at), float(at)) for at in range(0, SECONDS + 1, 5)]


def test_a_unit_that_looped_before_the_fix_too_is_not_this_fix_s_business() -> None:
    proof = proved(later(extra=other_unit()), earlier=other_unit())
    assert states(proof)["crash_looping_unit"] == "held"
    assert "only of unit:other.service, as before the fix" in said(proof, "crash_looping_unit")


def test_a_loop_that_moved_to_another_unit_is_not_fixed() -> None:
    proof = proved(later(extra=other_unit()))
    assert proof.state == "not proved" and "unit:other.service" in said(proof, "crash_looping_unit")


def test_a_saturated_core_that_moved_is_not_fixed() -> None:
    idle: list[Mapping[str, float]] = [{"user": 0.02}] * SECONDS
    busy = dict.fromkeys(range(8), idle) | {5: [{"system": 0.98}] * SECONDS}
    proof = proved(later(without="cores", extra=cores(busy, every=1.0)))
    assert proof.state == "not proved" and states(proof)["saturated_core"] == "failed"
    assert "cpu:5 (not there before the fix)" in said(proof, "saturated_core")


def test_a_window_that_was_cut_short_cannot_be_told() -> None:
    assert proved(later(), window=SECONDS + 3).state == "proved", "the first and last samples take a moment"
    assert states(proved(later(), window=SECONDS + 4))["the whole window"] == "blind"
    proof = proved(later(), window=SECONDS + 10)
    assert proof.state == "cannot tell" and states(proof)["the whole window"] == "blind"
    assert said(proof, "the whole window") == "2 min of 2 min: it was cut short"


def test_a_window_shorter_than_three_intervals_cannot_be_told() -> None:
    """The card reset every 40 s: two minutes are needed."""
    proof = proved(later(unseen=(118, SECONDS + 1)))
    assert proof.state == "cannot tell", states(proof)
    name = "long enough for the fault to come again"
    assert [it.name for it in proof.checks if it.state != "held"] == [name]
    assert said(proof, name) == "checked for 118.0 s; cgroup_walker came 2 times, every 40.0 s: 2 min are needed"


def busy_with(share: float) -> list[Reading]:
    return cores({core: [{"user": share}] * SECONDS for core in range(8)}, every=1.0)


@pytest.mark.parametrize(
    ("after", "state"), [(0.5, "proved"), (0.3, "proved"), (0.2, "cannot tell"), (0.01, "cannot tell")]
)
def test_a_node_that_idles_after_the_fix_proves_nothing(after: float, state: str) -> None:
    """Half a core of work on each of 8 cores before it."""
    works: Mapping[str, float] = {"user": 0.5}
    drowns: Mapping[str, float] = {"user": 0.5, "system": 0.48}
    core = [drowns if within(second) else works for second in range(SECONDS)]
    spent = dict.fromkeys(range(8), [works] * SECONDS) | {3: core}
    timeline = incident(without="drowned", extra=[*quick_reads(), *cores(spent, every=1.0)])
    before = Examined(examine(timeline), timeline)
    cured = [it for it in before.case.findings if it.subject == ECS]
    afterwards = later(without="cores", extra=busy_with(after))
    proof = prove(before, Examined(examine(afterwards), afterwards), cured)
    assert proof.state == state, [it for it in proof.checks if it.state != "held"]
    if state == "cannot tell":
        assert states(proof)["comparable load"] == "blind"
        assert "4.00 before" in said(proof, "comparable load") and f"{8 * after:.2f} after" in said(
            proof, "comparable load"
        )


def test_packets_are_load_too() -> None:
    def packets(rate: float) -> list[Reading]:
        return [read("softnet_processed_total", "cpu:0", rate * at, float(at)) for at in range(0, SECONDS + 1, 2)]

    for rate, state in ((900.0, "held"), (400.0, "blind")):
        proof = proved(later(extra=packets(rate)), earlier=packets(1000.0))
        assert states(proof)["comparable load"] == state
        assert f"packets a second: 1,000 before, {rate:,.0f} after" in said(proof, "comparable load")


def test_load_that_was_not_read_is_not_comparable() -> None:
    assert states(proved(later(without="cores")))["comparable load"] == "blind"


def test_a_new_symptom_without_a_cause_is_no_proof() -> None:
    """A driver reset of another card: nothing starves its core."""
    lines = [replace(it, text=it.text.replace("eth0", "eth1").replace("00:05", "00:06")) for it in resets()]
    proof = proved(later(extra=lines))
    assert states(proof)["no new symptom without a cause"] == "failed"
    assert "nic:eth1" in said(proof, "no new symptom without a cause")
    assert said(proof, "no new symptom without a cause").endswith("; 1 more"), "it reset twice"
    assert states(proved(later(extra=lines), earlier=lines))["no new symptom without a cause"] == "held"
    half = [it for it in lines if it.at < (lines[0].at + lines[-1].at) / 2]
    assert " more" not in said(proved(later(extra=half)), "no new symptom without a cause"), "it reset once"


def test_a_recorder_that_slept_did_not_look_all_the_time() -> None:
    whole = later()
    after = Examined(examine(whole), whole)
    sleepy = later(unseen=(40, 100))
    timeline = incident(extra=quick_reads())
    before = Examined(examine(timeline), timeline)
    cured = [it for it in before.case.findings if it.subject == ECS]
    assert prove(before, after, cured).state == "proved"
    proof = prove(before, Examined(examine(sleepy), sleepy), cured)
    assert proof.state == "cannot tell" and states(proof)["was looked at all the time"] == "blind"


@pytest.mark.parametrize(("seconds", "state"), [(15, "held"), (16, "blind")])
def test_fifteen_seconds_without_a_sample_are_a_slow_node_and_more_are_a_gap(seconds: int, state: str) -> None:
    proof = proved(later(unseen=(40, 40 + seconds)))
    assert states(proof)["was looked at all the time"] == state
    if state == "blind":
        assert f"for {seconds}.0 s" in said(proof, "was looked at all the time")
