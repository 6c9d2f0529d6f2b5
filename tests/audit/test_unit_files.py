"""Unit files of a small root: who wins, what is enabled, masked, dropped in; syntax; nothing leads out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.small_roots import ECS, ETC, LIB, root

from zombiescope.audit.unit_files import UnitFiles
from zombiescope.audit.unit_syntax import parse, seconds
from zombiescope.core import Host, Unreadable


def test_the_administrators_file_wins_and_drop_ins_add(tmp_path: Path) -> None:
    files = root(
        tmp_path,
        {
            f"{LIB}/ecs.service": ECS,
            f"{LIB}/ecs.service.d/10-first.conf": "[Service]\nRestartSec=20\n",
            f"{ETC}/ecs.service.d/20-fix.conf": "[Service]\nRestartPreventExitStatus=5 SIGTERM\n",
            f"{ETC}/ecs.service.d/30-fix.conf": "[Unit]\nStartLimitBurst=2\n",
            f"{LIB}/other.service": "[Service]\nRestart=no\n",
            f"{ETC}/other.service": "[Service]\nRestart=always\n",
        },
    )
    policy = files.policy(files.unit("ecs.service"))
    assert (policy.restart, policy.pause, policy.burst) == ("on-failure", 20.0, 2)
    assert policy.prevented_by == ("5", "SIGTERM") and len(files.unit("ecs.service").drop_ins) == 3
    assert files.policy(files.unit("other.service")).restart == "always"


def test_a_drop_in_of_the_same_name_in_etc_replaces_the_packages_one(tmp_path: Path) -> None:
    both = {f"{where}/x.service.d/a.conf": f"[Service]\nRestartSec={n}\n" for n, where in ((1, LIB), (2, ETC))}
    files = root(tmp_path, {f"{LIB}/x.service": ECS, **both})
    assert files.policy(files.unit("x.service")).pause == 2.0


def test_enabled_masked_static_and_disabled(tmp_path: Path) -> None:
    files = root(
        tmp_path,
        {f"{LIB}/{name}.service": ECS for name in ("ecs", "off", "gone", "empty")}
        | {f"{LIB}/bare.service": "[Unit]\n", f"{ETC}/empty.service": ""},
        {
            f"{ETC}/multi-user.target.wants/ecs.service": f"/{LIB}/ecs.service",
            f"{ETC}/gone.service": "/dev/null",
            f"{LIB}/sysinit.target.wants/bare.service": "../bare.service",
        },
    )
    states = {name: files.unit(name).state for name in files.names("*.service")}
    assert states == {
        "ecs.service": "enabled",
        "off.service": "disabled",
        "gone.service": "masked",
        "empty.service": "masked",
        "bare.service": "static",
    }
    assert files.unit("ecs.service").enabled_by == ("multi-user.target",) and files.unit("bare.service").starts
    assert not files.unit("gone.service").starts


def test_needed_by_what_is_enabled(tmp_path: Path) -> None:
    files = root(
        tmp_path,
        {
            f"{LIB}/containerd.service": ECS,
            f"{LIB}/docker.service": "[Unit]\nWants=containerd.service network.target\n" + ECS,
            f"{LIB}/idle.service": "[Unit]\nRequires=containerd.service\n" + ECS,
        },
        {
            f"{ETC}/multi-user.target.wants/docker.service": f"/{LIB}/docker.service",
            f"{ETC}/docker.service.requires/idle.service": f"/{LIB}/idle.service",
        },
    )
    assert files.needed_by("containerd.service") == ["docker.service", "idle.service"]
    assert files.needed_by("idle.service") == ["docker.service"], "by a link, too"
    (tmp_path / ETC / "docker.service.requires/idle.service").unlink()
    alone = UnitFiles(Host(str(tmp_path), live=False))
    assert alone.needed_by("containerd.service") == ["docker.service"], "idle.service is not enabled"


def test_templates_aliases_and_presets(tmp_path: Path) -> None:
    files = root(
        tmp_path,
        {
            f"{LIB}/getty@.service": "[Service]\nRestart=always\n",
            f"{LIB}/ssh.service": ECS,
            "usr/lib/systemd/system-preset/90-default.preset": "# comment\ndisable debug.*\nenable *\n",
            "etc/systemd/system-preset/10-ours.preset": "disable ecs.service\n",
        },
        {
            f"{ETC}/getty.target.wants/getty@tty1.service": f"/{LIB}/getty@.service",
            f"{ETC}/sshd.service": f"/{LIB}/ssh.service",
            f"{ETC}/autovt@.service": f"/{LIB}/getty@.service",
            f"{ETC}/autovt@tty9.service": f"/{LIB}/ssh.service",
        },
    )
    assert files.names("*.service") == ["getty@.service", "getty@tty1.service", "ssh.service"]
    aliases = ("autovt@tty2.service", "autovt@tty9.service", "sshd.service")
    assert [files.unit(it).name for it in aliases] == ["getty@tty2.service", "ssh.service", "ssh.service"]
    assert files.policy(files.unit("getty@tty1.service")).restart == "always"
    assert [files.preset(it) for it in ("ecs.service", "ssh.service", "debug.service")] == [
        "disable",
        "enable",
        "disable",
    ]


def test_the_roots_own_defaults(tmp_path: Path) -> None:
    manager = "[Manager]\nDefaultRestartSec=5s\nDefaultStartLimitBurst=1000\n#DefaultStartLimitIntervalSec=1\n"
    files = root(tmp_path, {f"{LIB}/x.service": "[Service]\nRestart=always\n", "etc/systemd/system.conf": manager})
    policy = files.policy(files.unit("x.service"))
    assert (policy.pause, policy.interval, policy.burst) == (5.0, 10.0, 1000)


def test_nothing_leads_out_of_a_root_and_links_may_circle(tmp_path: Path) -> None:
    secret = tmp_path / "outside.service"
    secret.write_text("[Service]\nRestart=always\n")
    inside = tmp_path / "root"
    files = root(
        inside,
        {f"{LIB}/a.service": ECS},
        {f"{LIB}/out.service": str(secret), f"{LIB}/round.service": "round.service"},
    )
    assert files.policy(files.unit("out.service")).restart == "no"
    assert files.unit("round.service").state == "static"


def test_hostile_names_and_bytes(tmp_path: Path) -> None:
    odd = "x\x1b[31m\n\udcff" + "y" * 200 + ".service"
    files = root(tmp_path, {f"{LIB}/{odd}": "[Service]\nRestart=\udcfe\n=\n[\n" + "A" * 100_000})
    assert files.names("*.service") == [odd] and files.unit(odd).state == "static"
    os.mkfifo(tmp_path / LIB / "pipe.service")
    assert UnitFiles(Host(str(tmp_path), live=False)).unit("pipe.service").name == "pipe.service"


def test_a_root_without_units_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="it has no systemd"):
        UnitFiles(Host(str(tmp_path), live=False))


def test_syntax() -> None:
    text = "# c\n[Unit]\nAfter=a \\\n# within\n  b\n; c\nAfter=c\nWants=x\nWants=\n[Service]\nEnvironment=A=1\n"
    settings = parse(text)
    assert settings["Unit", "After"] == ["a  b", "c"] and settings["Unit", "Wants"] == []
    assert settings["Service", "Environment"] == ["A=1"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("500ms", 0.5),
        ("1min 30s", 90),
        ("2h", 7200),
        ("infinity", float("inf")),
        ("0", 0),
        ("soon", 7),
        ("", 7),
    ],
)
def test_time_spans(text: str, value: float) -> None:
    assert seconds(text, 7.0) == value


def test_timers(tmp_path: Path) -> None:
    files = root(
        tmp_path, {f"{LIB}/a.timer": "[Timer]\nOnUnitActiveSec=30s\n", f"{LIB}/b.timer": "[Timer]\nOnBootSec=1\n"}
    )
    assert files.every("a.timer") == 30.0 and files.every("b.timer") == float("inf")


def test_a_timer_fires_at_all_of_its_events_and_after_the_shortest_of_its_spans(tmp_path: Path) -> None:
    often = "".join(f"OnCalendar=*:{minute:02}\n" for minute in range(60))
    many = "".join(f"OnCalendar=2027-01-01 {at // 60 % 24:02}:{at % 60:02}:{at // 1440:02}\n" for at in range(201))
    files = root(
        tmp_path,
        {
            f"{LIB}/minutes.timer": f"[Timer]\n{often}",
            f"{LIB}/both.timer": "[Timer]\nOnCalendar=hourly\nOnUnitInactiveSec=1min\nOnUnitActiveSec=20min\n",
            f"{LIB}/cleared.timer": "[Timer]\nOnCalendar=*:*:*\nOnCalendar=\nOnCalendar=daily\n",
            f"{LIB}/none.timer": "[Timer]\nOnActiveSec=5\nOnUnitActiveSec=nonsense\n",
            f"{LIB}/most.timer": f"[Timer]\n{many.partition(chr(10))[2]}",
            f"{LIB}/many.timer": f"[Timer]\n{many}",
        },
    )
    paces = {it: files.every(f"{it}.timer") for it in ("minutes", "both", "cleared", "none")}
    assert paces == {"minutes": 60.0, "both": 60.0, "cleared": 86400.0, "none": float("inf")}
    assert files.every("most.timer") == pytest.approx(86400 / 200) and not files.unread
    files.every("many.timer")
    assert files.unread == {f"/{LIB}/many.timer": "more than 200 calendar events"}


@given(st.text(max_size=300))
def test_no_text_breaks_the_parsers(text: str) -> None:
    settings = parse(text)
    assert all(isinstance(value, str) for values in settings.values() for value in values)
    assert seconds(text, 1.0) >= 0


def test_drop_ins_of_an_alias_are_its_units_and_of_no_other(tmp_path: Path) -> None:
    nice = "[Service]\nRestart=always\n"
    files = root(
        tmp_path,
        {
            **{f"{LIB}/{name}.service": "[Service]\nRestart=no\n" for name in ("one", "two", "three")},
            f"{ETC}/other.service.d/x.conf": nice,
            f"{ETC}/third@.service.d/x.conf": nice,
        },
        {f"{ETC}/other.service": f"/{LIB}/two.service", f"{ETC}/third@.service": f"/{LIB}/three.service"},
    )
    assert {it: files.policy(files.unit(f"{it}.service")).restart for it in ("one", "two", "three")} == {
        "one": "no",
        "two": "always",
        "three": "no",
    }


def test_a_link_by_a_name_that_the_unit_gives_itself_enables_it_and_any_other_only_leads_to_it(tmp_path: Path) -> None:
    install = "[Install]\nWantedBy=multi-user.target\n"
    files = root(
        tmp_path,
        {
            f"{LIB}/one.service": f"{install}Alias=uno.service\n",
            f"{LIB}/two.service": install,
            f"{LIB}/three.service": install,
        },
        {f"{ETC}/uno.service": f"/{LIB}/one.service", f"{ETC}/due.service": f"/{LIB}/two.service"},
    )
    states = {it: files.unit(f"{it}.service").state for it in ("one", "two", "three")}
    assert states == {"one": "enabled", "two": "indirect", "three": "disabled"}


def test_an_instance_that_is_a_link_to_its_template_is_a_unit_and_no_alias(tmp_path: Path) -> None:
    files = root(
        tmp_path,
        {f"{LIB}/a@.service": "[Service]\nRestart=always\n", f"{LIB}/b.service": "[Service]\nRestart=no\n"},
        {f"{ETC}/a@x.service": f"/{LIB}/a@.service", f"{ETC}/lost.service": f"/{LIB}/gone.service"},
    )
    assert files.names("*.service") == ["a@.service", "a@x.service", "b.service", "lost.service"]
    assert files.unit("a@x.service").name == "a@x.service"
