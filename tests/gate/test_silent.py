"""What the rules let pass: settings that only look like a fault, and units that go along with others."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gate.images import ETC, LIB, PLAIN, clean, judged, member, objections, packed, sick
from tests.nodes import node, read

from zombiescope.gate._unpacked import root_folder
from zombiescope.gate.growing_cgroups import slope
from zombiescope.knowledge.agents import agents

FOLDERS = sorted({sign.path for agent in agents() for sign in agent.use if sign.kind == "folder_filled"})


@pytest.mark.parametrize(
    ("words", "faults"),
    [
        ("cgroup_disable=pids", []),
        ("cgroup_enable=memory swapaccount=1", []),
        ("cgroup_disable=pids,memory", [("error", "parameter:cgroup_disable=pids,memory")]),
    ],
)
def test_only_a_memory_controller_that_is_off_is_a_fault(
    tmp_path: Path, words: str, faults: list[tuple[str, str]]
) -> None:
    root = clean(tmp_path, {"etc/default/grub": f'GRUB_CMDLINE_LINUX="{words}"\n'})
    assert objections(judged(root)["cgroup_mode"]) == faults


def test_a_timer_that_never_fires_is_counted_and_has_no_pace(tmp_path: Path) -> None:
    told = judged(clean(tmp_path, {f"{LIB}/apt-daily.timer": "[Timer]\nOnCalendar=soon\n"}))["frequent_timer"]
    assert (told.state, told.says) == ("pass", "timers that start at boot: 1")


def test_a_service_goes_along_with_the_timer_of_its_name_and_with_no_other(tmp_path: Path) -> None:
    timer = "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"
    root = clean(
        tmp_path,
        {
            f"{LIB}/apt-daily.service": PLAIN,
            f"{LIB}/other.timer": timer.replace("OnCalendar", "Unit=hidden.service\nOnCalendar"),
            f"{LIB}/hidden.service": PLAIN,
        },
        {f"{ETC}/timers.target.wants/other.timer": f"/{LIB}/other.timer"},
    )
    told = judged(root, allowed=["nginx.service", "apt-daily.timer", "other.timer"])["unknown_unit"]
    assert objections(told) == [("error", "unit:hidden.service")]
    assert told.says == "units that start at boot, without essential ones: 4; allow-list entries: 3"


def test_an_image_without_agents_says_so(tmp_path: Path) -> None:
    assert judged(clean(tmp_path / "a"))["agent_without_use"].says == "known agents that start: none"
    assert judged(sick(tmp_path / "b"))["agent_without_use"].says == "known agents that start: ecs.service"


def test_a_backport_is_possible_where_a_kernel_is_an_error(tmp_path: Path) -> None:
    for it in judged(sick(tmp_path))["leaking_kernel"].objections:
        assert (", unless its distribution backported the fix" in it.says) == (it.level == "error"), it.says


@pytest.mark.parametrize(
    ("limit", "says"),
    [("StartLimitIntervalSec=0", True), ("StartLimitBurst=0", True), ("StartLimitBurst=1", False)],
)
def test_a_service_that_restarts_at_once_and_without_a_limit_is_an_error(
    tmp_path: Path, limit: str, says: bool
) -> None:
    unit = f"[Unit]\n{limit}\n[Service]\nExecStart=/x\nRestart=always\n[Install]\nWantedBy=multi-user.target\n"
    told = judged(clean(tmp_path, {f"{LIB}/nginx.service": unit}))["endless_restart"]
    assert objections(told) == [("error", "unit:nginx.service")] * says


@pytest.mark.parametrize("folder", FOLDERS)
def test_of_a_folder_that_shows_use_a_tar_keeps_the_names(tmp_path: Path, folder: str) -> None:
    tar = packed(tmp_path / "t.tar", [member(f"{folder.lstrip('/')}/inside/it", b"secret")])
    with root_folder(str(tar)) as root:
        assert [it.name for it in Path(root, folder.lstrip("/")).iterdir()] == ["inside"]
        assert folder.startswith("/etc/") or not any(it.is_file() for it in Path(root).rglob("*")), "not what is in it"


def test_a_slope_is_from_the_middle_of_the_first_third_to_that_of_the_last() -> None:
    steady = [read("cgroups_known", "controller:memory", float(at), float(at)) for at in range(3601)]
    assert slope(node(steady).series("cgroups_known", "controller:memory")) == pytest.approx(
        (600, 3000, 2 / 3), rel=0.01
    )
    once = node([read("cgroups_known", "controller:memory", 7.0, 0.0)]).series("cgroups_known", "controller:memory")
    assert slope(once) == (7.0, 7.0, 0.0)
