"""What starts at boot: presets, scripts of SysV, generators, what units pull in, rules of udev, names on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit.small_roots import unit
from tests.files import node_of

from zombiescope.audit import activation, boot, presets, sysv
from zombiescope.audit.unit_file import UnitFile, template
from zombiescope.core import Host


@pytest.mark.parametrize(
    ("text", "first"),
    [("uninitialized\n", True), ("", False), ("5f" * 16, False), (None, True)],
)
def test_the_first_boot(tmp_path: Path, text: str | None, first: bool) -> None:
    host = node_of(tmp_path, {} if text is None else {"etc/machine-id": text})
    assert presets.is_first_boot(host) is first


def test_a_machine_id_that_cannot_be_read_is_no_first_boot(tmp_path: Path) -> None:
    (tmp_path / "etc/machine-id").mkdir(parents=True)
    assert not presets.is_first_boot(Host(str(tmp_path), live=False))


def test_rules_of_presets() -> None:
    texts = [
        "# enable x\nenable a.service one two\nenable\nallow b.service\n\ndisable c* ignored\n",
        "ignore d.service\n",
    ]
    rules = presets.rules(texts)
    assert [(it.order, it.pattern, it.instances) for it in rules] == [
        ("enable", "a.service", ("one", "two")),
        ("disable", "c*", ()),
        ("ignore", "d.service", ()),
    ]
    assert presets.rule_for("cc.service", rules) is rules[1] and presets.rule_for("x.service", rules) is None


INSTALL = "[Install]\nWantedBy=multi-user.target\n"


def enabled(units: dict[str, str], *rules: str, masked: tuple[str, ...] = ()) -> list[tuple[str, str, bool]]:
    known = {name: unit(name, text, masked=name in masked) for name, text in units.items()}

    def load(name: str) -> UnitFile | None:
        found = known.get(name) or known.get(template(name))
        return None if found is None else UnitFile(name=name, path=found.path, settings=found.settings)

    return list(presets.enabled(known.values(), presets.rules(rules), load))


def test_what_presets_enable() -> None:
    units = {"a.service": INSTALL, "b.service": "", "c.service": "[Install]\nAlso=a.service d.service\n"}
    wanted = ("multi-user.target", "a.service", False)
    assert enabled(units) == [wanted, wanted], "no rule names it, so it is enabled; so is what brings it along"
    assert enabled(units, "disable c.service\n") == [wanted]
    assert enabled(units, "ignore *\n") == [] and enabled(units, "disable *\n") == []
    assert enabled(units, "enable a.service\ndisable *\n") == [wanted]
    assert enabled(units, masked=("a.service", "c.service")) == []
    alias = {"a.service": "[Install]\nAlias=b.service\n"}
    assert enabled(alias) == [("b.service", "a.service", True)]


def test_instances_that_presets_enable() -> None:
    units = {"a@.service": "[Install]\nWantedBy=x.target\nDefaultInstance=tty1\nDefaultInstance=tty2\n"}
    assert enabled(units) == [("x.target", "a@tty2.service", False)]
    named = enabled(units, "enable a@.service one two\n")
    assert named == [("x.target", f"a@{it}.service", False) for it in ("one", "two")]
    assert enabled({"a@.service": INSTALL}) == [], "without an instance there is nothing to start"
    circle = {"a.service": f"{INSTALL}Also=b.service\n", "b.service": f"{INSTALL}Also=a.service\n"}
    assert len(enabled(circle, "enable a.service\ndisable *\n")) == 2


def test_scripts_of_sysv(tmp_path: Path) -> None:
    host = node_of(
        tmp_path,
        {f"etc/init.d/{name}": "#!/bin/sh\n" for name in ("a", "b.sh", "text", "deep")} | {"etc/rc.d/init.d/a": ""},
        {
            "etc/init.d/link": "a",
            "etc/init.d/circle": "circle",
            "etc/init.d/gone": "nowhere",
            "etc/init.d/lost": "circle/x",
            **{f"etc/init.d/l{it}": f"l{it + 1}" for it in range(1, 9)},
            "etc/init.d/l9": "deep",
            "etc/rc2.d/S01a": "../init.d/a",
            "etc/rc3.d/S20b.sh": "../init.d/b.sh",
            "etc/rc5.d/S20b.sh": "../init.d/b.sh",
            "etc/rc2.d/K01x": "../init.d/x",
            "etc/rc2.d/Sxxa": "../init.d/a",
            "etc/rc2.d/Sx1a": "../init.d/a",
            "etc/rc2.d/S01": "../init.d/a",
            "etc/rc1.d/S01a": "../init.d/a",
            "etc/rc.d/rc4.d/S99z": "../init.d/z",
        },
    )
    for name in ("a", "b.sh", "deep"):
        (tmp_path / f"etc/init.d/{name}").chmod(0o755)
    found = sysv.scripts(host)
    own = {"a": "a", "b": "b.sh", "deep": "deep", "link": "link", **{f"l{it}": f"l{it}" for it in range(3, 10)}}
    assert found == {f"{name}.service": f"/etc/init.d/{file}" for name, file in own.items()}
    assert sorted(sysv.links(host)) == [
        ("graphical.target", "b.service"),
        ("multi-user.target", "a.service"),
        ("multi-user.target", "b.service"),
        ("multi-user.target", "z.service"),
    ]


def test_where_boot_begins() -> None:
    targets = ["multi-user.target", "rescue.target", "suspend-then-hibernate.target", "runlevel0.target", "own.target"]
    hardware = boot.roots([], default=False, generated=False)
    assert "default.target" not in hardware and "bluetooth.target" in hardware
    assert boot.roots(targets, default=True, generated=False) == ["default.target", *hardware]
    assert boot.roots(targets, default=True, generated=True)[-2:] == ["multi-user.target", "own.target"]
    assert boot.roots(targets, default=False, generated=False) == [*hardware, "multi-user.target", "own.target"]


def test_generators(tmp_path: Path) -> None:
    folder = "usr/lib/systemd/system-generators"
    assert boot.has_sysv(Host(str(tmp_path), live=False)), "nothing is known of its generators"
    host = node_of(tmp_path, {f"{folder}/{it}": "" for it in ("systemd-fstab-generator", ".hidden", "podman", "lvm2")})
    assert boot.generators(host) == ["lvm2", "podman"] and not boot.has_sysv(host)
    node_of(tmp_path, {"etc/systemd/system-generators/systemd-sysv-generator": ""})
    assert boot.has_sysv(host)


def test_more_units_than_are_followed_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "MOST_UNITS", 3)
    chain = {f"{it}.service": unit(f"{it}.service", f"[Unit]\nWants={it + 1}.service\n") for it in range(1, 5)}
    for last, said in (("2.service", False), ("1.service", True)):
        unread: dict[str, str] = {}
        boot.pulled_in(chain.get, {}, [last], {}, unread)
        assert bool(unread) is said


def test_what_pulls_and_what_only_triggers() -> None:
    units = {
        "x.target": unit("x.target", "[Unit]\nWants=a.timer b.service x.target gone.service\n"),
        "a.timer": unit("a.timer", "[Timer]\nUnit=b.service\n"),
        "b.service": unit("b.service"),
        "m.service": unit("m.service", "[Unit]\nWants=c.service\n", masked=True),
        "c.service": unit("c.service"),
        "d.service": unit("d.service"),
    }
    found = boot.pulled_in(units.get, {"b.service": ["m.service"]}, ["x.target"], {"d.service": "/rule"}, {})
    assert found == {
        "a.timer": {"x.target": True},
        "b.service": {"x.target": True, "a.timer": False},
        "m.service": {"b.service": True},
        "d.service": {"/rule": False},
    }


def test_rules_of_udev(tmp_path: Path) -> None:
    rule = "\n".join(
        (
            '# ENV{SYSTEMD_WANTS}="comment.service"',
            'ENV{SYSTEMD_WANTS}=="asked.service", TAG+="x"',
            'ENV{SYSTEMD_WANTS}+="a.service b@$name.service c$name.service no-unit d@%k.timer"',
            'KERNEL=="x", \\',
            '  ENV{SYSTEMD_WANTS} := "joined.service"',
            'ENV{SYSTEMD_WANTS}="$x@y.service plain@one.service"',
            '  # ENV{SYSTEMD_WANTS}="later.service"',
        )
    )
    host = node_of(
        tmp_path,
        {
            "usr/lib/udev/rules.d/10-x.rules": rule,
            "usr/lib/udev/rules.d/20-x.rules": 'ENV{SYSTEMD_WANTS}="hidden.service"',
            "etc/udev/rules.d/20-x.rules": "",
            "usr/lib/udev/rules.d/30-x.txt": 'ENV{SYSTEMD_WANTS}="text.service"',
            "usr/lib/udev/rules.d/60-folder.rules/x": "",
        },
        {"etc/udev/rules.d/40-off.rules": "/dev/null", "etc/udev/rules.d/50-out.rules": "/nowhere"},
    )
    unread: dict[str, str] = {}
    found = activation.by_devices(host, unread)
    assert set(found) == {"a.service", "b@.service", "d@.timer", "joined.service", "plain@one.service"}
    assert set(unread) == {"/etc/udev/rules.d/50-out.rules", "/usr/lib/udev/rules.d/60-folder.rules"}


def test_names_on_the_bus(tmp_path: Path) -> None:
    head = "[D-BUS Service]\nName=x\nExec=/x\n"
    folder = "usr/share/dbus-1/system-services"
    host = node_of(
        tmp_path,
        {
            f"{folder}/a.service": f"{head}SystemdService=first.service\nSystemdService=last.service\n",
            f"{folder}/b.service": head,
            f"{folder}/c.service": "[Other]\nSystemdService=other.service\n",
            f"{folder}/d.service": f"{head}SystemdService=no-unit\n",
            f"{folder}/e.conf": f"{head}SystemdService=text.service\n",
            f"{folder}/f.service": f"{head}SystemdService=hidden.service\n",
            "run/dbus-1/system-services/f.service": f"{head}SystemdService=shown.service\n",
        },
    )
    found = activation.by_bus(host, {})
    shown = "/run/dbus-1/system-services/f.service"
    assert found == {"last.service": f"/{folder}/a.service", "shown.service": shown}


def test_more_rules_than_are_read_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "MOST_FILES", 2)
    rules = {f"etc/udev/rules.d/{it}.rules": f'ENV{{SYSTEMD_WANTS}}="{it}.service"' for it in "ab"}
    unread: dict[str, str] = {}
    assert set(activation.by_devices(node_of(tmp_path, rules), unread)) == {"a.service", "b.service"} and not unread
    more = node_of(tmp_path, {"etc/udev/rules.d/c.rules": 'ENV{SYSTEMD_WANTS}="c.service"'})
    assert set(activation.by_devices(more, unread)) == {"a.service", "b.service"}
    assert unread == {"/etc/udev/rules.d": "more than 2 names"}
