"""systemd_units on a real systemd: counts that only rise, a loop's policy and cgroup, who comes to rest, the price."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.looping_unit import looping
from tests.waiting import until

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.lab._systemd import Booted, asked_by_diagnosis, booted
from zombiescope.probes import systemd_units

LOOP = looping("exit 7")
CALM = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep infinity\nRestart=on-failure\n"
ONCE = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/false\n"
UNITS = {"loop.service": LOOP, "once.service": ONCE, **{f"calm{n}.service": CALM for n in range(20)}}


@pytest.fixture(scope="module")
def systemd(can_boot: None) -> Iterator[Booted]:  # noqa: ARG001
    with booted(UNITS, label="probe") as running, asked_by_diagnosis(running):
        yield running


def run(code: int, status: int) -> list[object]:
    """As ExecStart= of a service says it: what was run, when, and how it ended."""
    return ["/bin/sh", ["/bin/sh"], False, 1, 1, 2, 2, 77, code, status]


@pytest.mark.parametrize(
    ("result", "runs", "main", "says"),
    [
        ("exit-code", [run(1, 7)], 7, "Result=exit-code, ExecMainStatus=7"),
        ("success", [run(1, 0)], 0, "Result=success, ExecMainStatus=0"),
        ("success", [run(0, 0)], 0, ""),
        ("success", [run(1, 1)], 1, ""),
        ("exit-code", [run(0, 0)], 0, ""),
        ("exit-code", [run(0, 0)], 7, "Result=exit-code, ExecMainStatus=7"),
        ("signal", [run(2, 9)], 9, "Result=signal, ExecMainStatus=9"),
        ("oom-kill", [run(0, 0)], 9, "Result=oom-kill, ExecMainStatus=9"),
        ("exit-code", [run(1, 0), run(1, 3), run(0, 0)], 3, "Result=exit-code, ExecMainStatus=3"),
        ("start-limit-hit", [], None, "Result=start-limit-hit, ExecMainStatus=None"),
    ],
    ids=[
        *("failed", "ended well", "runs", "ended after Result was asked for", "started after Result was asked for"),
        *("started before ExecStart was asked for", "killed", "OOM-killed", "second of three commands", "never ran"),
    ],
)
def test_how_it_ended_is_of_one_run(result: str, runs: list[object], main: int | None, says: str) -> None:
    """A start between two questions must not make a failure look like work that was finished."""
    assert systemd_units.ending({"Result": result, "ExecStart": runs, "ExecMainStatus": main}) == says


def by_subject(seen: list[Reading | Blind], what: str) -> dict[str, Reading]:
    return {it.subject: it for it in seen if it.what == what and isinstance(it, Reading)}


@pytest.mark.kernel
@pytest.mark.beside
def test_a_loop_is_told_in_full_and_the_calm_are_told_as_calm(systemd: Booted) -> None:
    with systemd_units.watch(Host()) as look:
        first = by_subject(list(look()), "unit_restarts_total")["unit:loop.service"]
        now: list[Reading | Blind] = []

        def failed() -> bool:
            """Between two runs its failure shows for a moment only."""
            now[:] = look()
            last = by_subject(now, "unit_restarts_total")["unit:loop.service"]
            return last.value > first.value and "Result=exit-code, ExecMainStatus=7" in last.text

        until(failed)
    assert by_subject(now, "unit_cgroup")["unit:loop.service"].text == f"/{systemd.name}/system.slice/loop.service"
    assert by_subject(now, "unit_loops_for_ever")["unit:loop.service"].value == 1
    calm = {name: it.value for name, it in by_subject(now, "unit_restarts_total").items() if "calm" in name}
    assert calm == {f"unit:calm{n}.service": 0.0 for n in range(20)}
    assert by_subject(now, "unit_active")["unit:calm3.service"].text == "active (running)"
    units = by_subject(now, "units_failed")["node"]
    assert units.value == 1 and units.text == "once.service"
    assert set(by_subject(now, "unit_cgroup")) == {"unit:loop.service"}, "only who restarts costs more questions"


@pytest.mark.kernel
@pytest.mark.beside
def test_the_count_only_rises_though_systemds_begins_anew(systemd: Booted) -> None:
    def told() -> float:
        return by_subject(list(look()), "unit_restarts_total")["unit:calm1.service"].value

    with systemd_units.watch(Host()) as look:
        assert told() == 0
        for times in (1, 2):
            systemd.systemctl("kill", "--signal=KILL", "calm1.service")
            until(lambda: told() >= times)  # noqa: B023  (it is called at once)
        until(lambda: systemd.show("calm1.service", "SubState") == "running")
        assert told() == 2
        systemd.systemctl("restart", "calm1.service")
        assert systemd.show("calm1.service", "NRestarts") == "0" and told() == 2


@pytest.mark.kernel
@pytest.mark.beside
def test_one_that_comes_to_rest_is_told_once_more(systemd: Booted) -> None:
    with systemd_units.watch(Host()) as look:
        assert by_subject(list(look()), "unit_active")["unit:calm2.service"].value == 1
        systemd.systemctl("stop", "calm2.service")
        assert by_subject(list(look()), "unit_active")["unit:calm2.service"].value == 0
        assert "unit:calm2.service" not in by_subject(list(look()), "unit_active")
        systemd.systemctl("mask", "--now", "calm3.service")
        assert by_subject(list(look()), "unit_active")["unit:calm3.service"].text == "not loaded"
        systemd.systemctl("unmask", "calm3.service")
        systemd.systemctl("start", "calm3.service")


@pytest.mark.kernel
@pytest.mark.beside
def test_a_look_is_cheap_though_a_unit_loops_fast(systemd: Booted) -> None:
    del systemd
    with systemd_units.watch(Host()) as look:
        list(look())
        started = time.thread_time()
        for _ in range(10):
            list(look())
        cost = (time.thread_time() - started) / 10
    assert cost < 0.005 * systemd_units.EVERY, "half a percent of one core, ten times what it takes"


@pytest.mark.kernel
@pytest.mark.beside
def test_a_bus_that_was_away_is_found_again(monkeypatch: pytest.MonkeyPatch, systemd: Booted, tmp_path: Path) -> None:
    link = tmp_path / "bus"
    monkeypatch.setenv("ZOMBIESCOPE_SYSTEMD_BUS", f"unix:path={link}")
    with systemd_units.watch(Host()) as look:
        with pytest.raises(Unreadable, match="away"):
            list(look())
        link.symlink_to(systemd.bus.removeprefix("unix:path="))
        assert by_subject(list(look()), "units_failed")


def test_a_recorded_root_has_no_bus(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="a recorded root has no D-Bus"):
        list(systemd_units.read(Host(str(tmp_path), live=False)))
