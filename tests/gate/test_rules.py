"""Every rule of the gate on small images: where it objects, where it must not, and what it cannot see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.gate.images import ECS, ETC, LIB, PLAIN, WANTS, clean, judged, objections, sick
from tests.nodes import node, read

from zombiescope.core import Host
from zombiescope.core.model import Case, Span
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Ruling
from zombiescope.gate._rulings import rulings
from zombiescope.gate.growing_cgroups import NOISE
from zombiescope.knowledge.kernels import faults
from zombiescope.members.rooms import load

UNIFIED, LEGACY = "systemd.unified_cgroup_hierarchy", "systemd.legacy_systemd_cgroup_controller"


def test_a_clean_image_passes_every_rule_and_says_what_it_saw(tmp_path: Path) -> None:
    told = judged(clean(tmp_path), allowed=["nginx.service", "apt-daily.timer"], strict=True)
    assert {ruling.state for ruling in told.values()} == {"pass"} and all(ruling.says for ruling in told.values())
    assert set(told) == {
        "agent_without_use",
        "cgroup_mode",
        "endless_restart",
        "frequent_timer",
        "leaking_kernel",
        "stale_allowance",
        "unknown_unit",
        "unread_units",
    }


def test_the_incidents_image_fails_for_every_reason_it_has(tmp_path: Path) -> None:
    told = judged(sick(tmp_path))
    ecs = [("error", "unit:ecs.service")]
    assert objections(told["agent_without_use"]) == ecs and objections(told["endless_restart"]) == ecs
    assert objections(told["frequent_timer"]) == [("error", "unit:poll.timer")]
    assert objections(told["cgroup_mode"]) == [("error", "parameter:systemd.unified_cgroup_hierarchy=0")]
    kernel = "kernel:5.4.0-1103-aws"
    assert objections(told["leaking_kernel"]) == [("error", kernel), ("note", kernel)]
    assert told["unknown_unit"].state == "skipped" and told["unread_units"].state == "pass"
    (endless,) = told["endless_restart"].objections
    assert (
        "exit code 5 means “do not restart me”, and the unit ignores it" in endless.says
        and "8,640 starts a day" in endless.says
    )
    assert endless.where == f"/{LIB}/ecs.service" and "RestartPreventExitStatus=5" in endless.fix[0]
    (unused,) = told["agent_without_use"].objections
    assert "none of the 4 files that would configure it exists" in unused.says and "known to leak" in unused.says
    numa = told["leaking_kernel"].objections[0]
    assert "package linux-image-5.4.0-1103-aws" in numa.says and "memory.numa_stat" in numa.says


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({"etc/ecs/ecs.config": "ECS_CLUSTER=prod\n"}, None),
        ({f"{ETC}/nginx.service.d/a.conf": "[Unit]\nRequires=ecs.service\n"}, None),
        ({}, ["ecs.service"]),
    ],
    ids=["configured", "needed", "allowed"],
)
def test_an_agent_that_somebody_wants_is_no_objection(
    tmp_path: Path, files: dict[str, str], allowed: list[str] | None
) -> None:
    assert not judged(sick(tmp_path, files), allowed=allowed)["agent_without_use"].objections


def test_agents_without_a_known_leak_are_a_note_unless_all_that_would_speak_for_them_is_files(tmp_path: Path) -> None:
    names = ("docker", "containerd", "datadog-agent", "prometheus-node-exporter", "crio")
    units = {f"{LIB}/{name}.service": PLAIN for name in names}
    told = judged(clean(tmp_path, units, {f"{WANTS}/{name}.service": f"/{LIB}/{name}.service" for name in names}))
    # Docker is enabled, so containerd is used; crio has no file that would tell; an exporter's use leaves no trace.
    expected = [("error", "unit:datadog-agent.service"), ("note", "unit:docker.service")]
    assert objections(told["agent_without_use"]) == expected


def test_a_configuration_that_cannot_be_read_is_blind(tmp_path: Path) -> None:
    sick(tmp_path)
    (tmp_path / "etc/ecs").mkdir()
    os.mkfifo(tmp_path / "etc/ecs/ecs.config")
    ruling = judged(tmp_path)["agent_without_use"]
    assert "not a regular file" in ruling.unseen[0].why


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ("Restart=always\nRestartSec=5", "note"),
        ("Restart=always\nRestartSec=100ms", ""),
        ("Restart=no", ""),
        ("Restart=always\nRestartSec=0.5\n[Unit]\nStartLimitIntervalSec=0", "error"),
        ("Restart=always\nRestartSec=10\n[Unit]\nStartLimitIntervalSec=0", "note"),
        ("Restart=always\nRestartSec=10\n[Unit]\nStartLimitIntervalSec=200\nStartLimitBurst=5", ""),
    ],
)
def test_restart_policies(tmp_path: Path, settings: str, level: str) -> None:
    told = judged(clean(tmp_path, {f"{LIB}/nginx.service": f"[Service]\nExecStart=/x\n{settings}\n"}))
    assert objections(told["endless_restart"]) == ([(level, "unit:nginx.service")] if level else [])


def test_the_fix_that_is_proposed_ends_the_loop(tmp_path: Path) -> None:
    unit = {f"{LIB}/nginx.service": "[Service]\nExecStart=/x\nRestart=always\nRestartSec=7\n"}
    ruling = judged(clean(tmp_path / "before", unit))["endless_restart"]
    path, _, text = ruling.objections[0].fix[0].partition(": ")
    cured = {**unit, path.lstrip("/"): text.replace(" ", "\n")}
    assert not judged(clean(tmp_path / "after", cured))["endless_restart"].objections


def test_what_is_essential_or_not_enabled_may_come_back_for_ever(tmp_path: Path) -> None:
    told = judged(clean(tmp_path, {f"{LIB}/ssh.service": ECS, f"{LIB}/ecs.service": ECS}))
    assert not told["endless_restart"].objections and not told["agent_without_use"].objections


@pytest.mark.parametrize(
    ("timer", "level"),
    [("OnUnitActiveSec=59s", "error"), ("OnCalendar=minutely", "note"), ("OnCalendar=*:0/10", ""), ("OnBootSec=5", "")],
)
def test_timers(tmp_path: Path, timer: str, level: str) -> None:
    told = judged(clean(tmp_path, {f"{LIB}/apt-daily.timer": f"[Timer]\n{timer}\n"}))
    assert objections(told["frequent_timer"]) == ([(level, "unit:apt-daily.timer")] if level else [])


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("4.4.0-210-generic", ["error", "error", "error", "note"]),
        ("5.4.0-1103-aws", ["error", "note"]),
        ("4.18.0-553.el8_10.x86_64", ["note", "note", "note"]),
        ("5.19.0-50-generic", ["note", "note"]),
        ("6.8.0-1024-aws", ["note"]),
        ("7.1.13-amd64", []),
        ("10.2.0", []),
    ],
)
def test_kernels_against_the_matrix(tmp_path: Path, release: str, levels: list[str]) -> None:
    clean(tmp_path)
    (tmp_path / "boot/vmlinuz-7.1.13-amd64").unlink()
    (tmp_path / "usr/lib/modules/7.1.13-amd64").rename(tmp_path / f"usr/lib/modules/{release}")
    told = judged(tmp_path)["leaking_kernel"]
    assert [it.level for it in told.objections] == levels


def test_the_matrix_is_whole() -> None:
    judged_by = [fault for fault in faults() if fault.level]
    assert [fault.version for fault in judged_by] == ["4.8", "5.2", "5.8", "6.0", "7.1"]
    assert all(fault.fault and fault.fix and fault.commit for fault in judged_by)


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("boot/grub/grub.cfg", "\tlinux\t/vmlinuz root=/dev/vda1 cgroup_disable=memory\n", "cgroup_disable=memory"),
        ("boot/loader/entries/a.conf", "title x\noptions a=b cgroup_disable=cpu,memory\n", "cgroup_disable=cpu,memory"),
        ("etc/kernel/cmdline", f"quiet {UNIFIED}=no", f"{UNIFIED}=no"),
        ("etc/default/grub.d/50-cloud.cfg", f"GRUB_CMDLINE_LINUX_DEFAULT='a {UNIFIED}=0'", f"{UNIFIED}=0"),
        ("etc/default/grub", f'GRUB_CMDLINE_LINUX="{LEGACY}', f"{LEGACY}="),
        ("etc/default/grub", "#GRUB_CMDLINE_LINUX=cgroup_disable=memory\nGRUB_CMDLINE_LINUX=cgroup_disable=cpu\n", ""),
        ("etc/kernel/cmdline", f"{UNIFIED}=1 cgroup_no_v1=all cgroup.memory=nokmem", ""),
    ],
)
def test_command_lines(tmp_path: Path, path: str, text: str, found: str) -> None:
    told = judged(clean(tmp_path, {path: text}))["cgroup_mode"]
    assert [it.subject for it in told.objections] == ([f"parameter:{found}"] if found else [])
    assert f"/{path}" in told.says


def test_units_that_nobody_listed(tmp_path: Path) -> None:
    told = judged(sick(tmp_path), allowed=["nginx.*", "apt-daily.timer"])["unknown_unit"]
    assert objections(told) == [("error", "unit:ecs.service"), ("error", "unit:poll.timer")]


def test_what_starts_and_cannot_be_read_keeps_the_gate_shut(tmp_path: Path) -> None:
    clean(tmp_path, {f"{LIB}/huge.service": "x" * (2 << 20)}, {f"{WANTS}/huge.service": f"/{LIB}/huge.service"})
    (tmp_path / f"{LIB}/nginx.service").unlink()
    os.mkfifo(tmp_path / f"{LIB}/nginx.service")
    (tmp_path / f"{ETC}/sshd.service.d").symlink_to("/elsewhere")
    (tmp_path / "usr/local/lib").mkdir(parents=True)
    (tmp_path / "usr/local/lib/systemd").symlink_to("/usr/lib/systemd")
    told = judged(tmp_path)["unread_units"]
    # The folder in /usr/local leads to the other one, and comes before it, as it does for systemd.
    local = "/usr/local/lib/systemd/system"
    expected = {f"/{ETC}/sshd.service.d", f"{local}/huge.service", f"{local}/nginx.service"}
    assert told.state == "blind" and sorted(it.source for it in told.unseen) == sorted(expected)


def test_a_unit_that_starts_without_a_single_setting_was_not_read(tmp_path: Path) -> None:
    clean(tmp_path, {f"{LIB}/bare.service": "# nothing\n"}, {f"{WANTS}/bare.service": f"/{LIB}/bare.service"})
    told = judged(tmp_path)["unread_units"]
    assert [(it.source, it.why) for it in told.unseen] == [(f"/{LIB}/bare.service", "no setting in it could be read")]


def test_links_that_circle_or_lead_out_are_never_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "evil.service").write_text(ECS)
    root = clean(
        tmp_path / "root", links={"a": "b", "b": "a", f"{ETC}/loop.wants": "loop.wants", "etc/grub.d": "../.."}
    )
    (root / f"{LIB}/evil.service").symlink_to(secret / "evil.service")
    (root / f"{WANTS}/evil.service").symlink_to(f"/{LIB}/evil.service")
    (root / "etc/default/grub.d").symlink_to(secret)
    (root / "usr/local").mkdir()
    (root / "usr/local/lib").symlink_to(secret)
    told = judged(root)
    assert not any(ruling.objections for ruling in told.values())
    unread = {it.source for it in told["unread_units"].unseen}
    hidden = {f"/usr/local/lib/systemd{it}" for it in ("", "/system", "/system-preset", "/system.conf.d")}
    assert unread == {f"/{LIB}/evil.service", f"/{ETC}/loop.wants", "/usr/local/lib/udev/rules.d", *hidden}
    assert [it.source for it in told["cgroup_mode"].unseen] == ["/etc/default/grub.d"]


def counted(at: float, known: float) -> list[object]:
    place = "controller:memory"
    return [
        read("cgroups_known", place, known, at),
        read("cgroup_hierarchy", place, 4, at),
        read("cgroup_folders", place, 100, at),
    ]


def machine(counts: list[float], every: float, *, most: int = 1000, soaked: bool = True) -> dict[str, Ruling]:
    timeline = node([it for place, known in enumerate(counts) for it in counted(place * every, known)])  # type: ignore[misc]
    case = Case(node="", kernel="", span=Span(0, 1)) if soaked else None
    image = Image(Host(), timeline=timeline, case=case, most_cgroups=most)
    skip = ("agent_without_use", "endless_restart", "unread_units", "frequent_timer", "looping_unit")
    return {it.rule: it for it in rulings(image, skip) if it.rule in ("memory_cgroups", "growing_cgroups")}


def test_too_many_cgroups_at_any_time_of_the_soak() -> None:
    told = machine([120.0, 1200.0, *[130.0] * 20], 60)
    (many,) = told["memory_cgroups"].objections
    assert "1,200 memory cgroups" in many.says and many.where == "/proc/cgroups_known"
    assert told["growing_cgroups"].state == "pass", "a burst that drained is no growth"
    assert machine([120.0], 5, soaked=False).keys() == {"memory_cgroups"}


def test_a_slow_leak_shows_as_a_slope_with_its_figures() -> None:
    leak = [100.0 + place * 5 / 15 for place in range(121)]  # one every 15 s, for ten minutes
    (grows,) = machine(leak, 5)["growing_cgroups"].objections
    assert "+240 an hour" in grows.says or "+239 an hour" in grows.says
    assert machine([100.0] * 121, 5)["growing_cgroups"].state == "pass"
    wobbling = [100.0 + (place * 7) % int(NOISE) for place in range(121)]
    assert machine(wobbling, 5)["growing_cgroups"].state == "pass"
    falling = [300.0 - place for place in range(121)]
    assert machine(falling, 5)["growing_cgroups"].state == "pass"


def test_a_soak_too_short_to_see_the_slowest_leak_is_blind() -> None:
    short = machine([100.0] * 13, 5)["growing_cgroups"]
    assert short.state == "blind" and "too short for a leak of 240 an hour: use --soak 7.5" in short.unseen[0].why
    fast = [100.0 + 10 * place for place in range(13)]
    assert machine(fast, 5)["growing_cgroups"].state == "fail"


def test_v2_counts_live_and_dead_together() -> None:
    readings = [
        read(what, "controller:memory", value, at)
        for at in (0.0, 5.0)
        for what, value in (("cgroup_dying_subsys", 700.0), ("cgroup_subsys", 400.0))
    ]
    image = Image(Host(), timeline=node(readings), most_cgroups=1000)
    rule = load("gate", "memory_cgroups")
    (many,) = rule.look(image)
    assert "1,100 memory cgroups" in many.says


def test_where_nothing_counts_them_the_gate_is_blind() -> None:
    image = Image(Host(), timeline=Timeline())
    skip = ("agent_without_use", "endless_restart", "unread_units", "frequent_timer", "looping_unit")
    told = {it.rule: it.state for it in rulings(image, skip)}
    assert told["memory_cgroups"] == "blind" and "growing_cgroups" not in told


def test_loops_that_the_signs_found_over_a_soak() -> None:
    restarts = [read("unit_restarts_total", "unit:x.service", float(place), place * 5.0) for place in range(9)]
    timeline = node(restarts, unseen={"cgroup_births_total": "permission denied"})
    signs = {name: load("signs", name) for name in ("crash_looping_unit", "cgroup_churn")}
    case = examine(timeline, signs=signs, laws={}, questions={}, remedies={})
    said = list(load("gate", "looping_unit").look(Image(Host(), timeline=timeline, case=case)))
    assert [type(it).__name__ for it in said] == ["Objection", "Blind"]
    assert said[0].subject == "unit:x.service" and said[0].says.startswith(
        "crash_looping_unit: keeps restarting: 8 restarts"
    )
    assert said[1].what == "cgroup_churn"
