"""What an interrupted step can have changed, and what only others can have: undo restores the first alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.files import write
from tests.gate.images import LIB

from zombiescope.core import Host, Step
from zombiescope.treatment.kept import State, kept, link_farm, unit_files
from zombiescope.treatment.reach import disabled_with, may_have_changed

ETC = "etc/systemd/system"
WANTS = f"{ETC}/multi-user.target.wants"
UNIT = "[Service]\nExecStart=/x\n[Install]\nWantedBy=multi-user.target\n"
DISABLE = Step(says="x", argv=("systemctl", "disable", "--", "a.service"), unit="a.service")


def files(root: Path) -> dict[str, State]:
    host = Host(str(root), live=False)
    return kept(host, unit_files("a.service")) | link_farm(host)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """a.service has an alias and brings b.service along, which brings c@x.service; o.service is somebody else's."""
    units = {f"{LIB}/{name}.service": UNIT for name in ("o", "p", "c@")}
    units[f"{LIB}/a.service"] = f"{UNIT}Also=b.service\nAlias=alias.service\n"
    units[f"{LIB}/b.service"] = f"{UNIT}Also=c@x.service a.service\n"
    links = {f"{WANTS}/{name}.service": f"/{LIB}/{name}.service" for name in ("a", "b", "o")}
    links |= {
        f"{ETC}/alias.service": f"/{LIB}/a.service",
        f"{ETC}/own.target.wants/alias.service": f"/{LIB}/a.service",
        f"{ETC}/only.target.wants/c@x.service": f"/{LIB}/c@.service",
        f"{ETC}/theirs.target.wants/o.service": f"/{LIB}/o.service",
        **{f"etc/rc{level}.d/S01{name}": f"../init.d/{name}" for level in "23" for name in ("a", "b", "o")},
    }
    return write(tmp_path, units, links)


OURS = (
    *(f"/{WANTS}/{name}.service" for name in ("a", "b")),
    f"/{ETC}/alias.service",
    f"/{ETC}/own.target.wants/alias.service",
    f"/{ETC}/own.target.wants",
    f"/{ETC}/only.target.wants/c@x.service",
    f"/{ETC}/only.target.wants",
    *(f"/etc/rc{level}.d/S01{name}" for level in "23" for name in ("a", "b")),
)
RENAMED = tuple(f"/etc/rc{level}.d/K01{name}" for level in "23" for name in ("a", "b"))


def disturb(root: Path) -> None:
    """Half of it by our step, and in between another administrator disables o, enables p and writes a drop-in."""
    for path in OURS:
        it = root / path.lstrip("/")
        it.rmdir() if it.is_dir() else it.unlink()
    for path in (*RENAMED, "/etc/rc3.d/K01o"):
        (root / path.lstrip("/")).symlink_to(f"../init.d/{path[-1]}")
    (root / "etc/rc3.d/S01o").unlink()
    (root / WANTS / "o.service").unlink()
    (root / f"{ETC}/theirs.target.wants/o.service").unlink()
    (root / f"{ETC}/theirs.target.wants").rmdir()
    (root / WANTS / "p.service").symlink_to(f"/{LIB}/p.service")
    (root / f"{ETC}/a.service.d").mkdir()
    (root / f"{ETC}/a.service.d/theirs.conf").write_text("[Service]\nNice=5\n")


def test_of_disable_only_links_of_the_unit_its_aliases_and_what_it_brings_along(root: Path) -> None:
    before = files(root)
    units = disabled_with(Host(str(root), live=False), DISABLE, before)
    assert units == ["a.service", "alias.service", "b.service", "c@x.service"]
    disturb(root)
    ours, unknown = may_have_changed(DISABLE, before, files(root), units)
    assert (ours, unknown) == (sorted((*OURS, *RENAMED)), [])


def test_what_cannot_be_known_is_said_and_left(root: Path) -> None:
    (root / f"{LIB}/a.service").write_text(f"{UNIT}Also=%H.service\n")
    before = files(root)
    assert disabled_with(Host(str(root), live=False), DISABLE, before) is None
    disturb(root)
    ours, unknown = may_have_changed(DISABLE, before, files(root), None)
    assert set(ours) < {*OURS, *RENAMED} and {f"/{WANTS}/a.service", "/etc/rc2.d/S01a", "/etc/rc2.d/K01a"} < set(ours)
    assert {f"/{WANTS}/b.service", f"/{WANTS}/o.service", "/etc/rc2.d/S01b"} < set(unknown) < set(before)
    assert not {*ours, *unknown} & {f"/{WANTS}/p.service", f"/{ETC}/a.service.d/theirs.conf"}


@pytest.mark.parametrize(
    ("argv", "ours"),
    [
        (("systemctl", "stop", "--", "a.service"), []),
        (("systemctl", "daemon-reload"), []),
        (("systemctl", "mask", "--", "a.service"), [f"/{ETC}/a.service"]),
        (
            ("install", "-D", "-m", "644", "-T", "/dev/stdin", f"/{ETC}/a.service.d/90-zombiescope.conf"),
            [f"/{ETC}/a.service.d", f"/{ETC}/a.service.d/90-zombiescope.conf"],
        ),
    ],
    ids=["stop", "reload", "mask", "drop-in"],
)
def test_other_steps(root: Path, argv: tuple[str, ...], ours: list[str]) -> None:
    before = files(root)
    disturb(root)
    (root / f"{ETC}/a.service.d/90-zombiescope.conf").write_text("[Service]\nRestart=no\n")
    (root / f"{ETC}/a.service").symlink_to("/dev/null")
    step = Step(says="x", argv=argv, unit="a.service")
    assert disabled_with(Host(str(root), live=False), step, before) == []
    assert may_have_changed(step, before, files(root), []) == (ours, [])


def test_a_unit_of_its_own_in_the_place_of_a_mask_is_theirs(root: Path) -> None:
    before = files(root)
    (root / f"{ETC}/a.service").write_text(UNIT)
    step = Step(says="x", argv=("systemctl", "mask", "--", "a.service"), unit="a.service")
    assert may_have_changed(step, before, files(root), []) == ([], [])
    os.unlink(root / f"{ETC}/a.service")
    assert may_have_changed(step, before, files(root), []) == ([], [])


def test_what_a_step_keeps_is_its_own_and_what_only_begins_so_is_not() -> None:
    step = Step(says="x", argv=("true",), keeps=("/sys/a", "/sys/b"))
    link = {"kind": "link", "to": "/x"}
    paths = ("/sys/a", "/sys/b/within", "/sys/bc", "/sys", "/etc/a")
    assert may_have_changed(step, {}, dict.fromkeys(paths, link), []) == (["/sys/a", "/sys/b/within"], [])


def test_a_link_that_somebody_made_since_is_theirs_also_one_of_the_unit(root: Path) -> None:
    before = files(root)
    (root / f"{ETC}/new.target.wants").mkdir()
    (root / f"{ETC}/new.target.wants/a.service").symlink_to(f"/{LIB}/a.service")
    assert may_have_changed(DISABLE, before, files(root), ["a.service"]) == ([], [])


def test_instances_of_its_template_are_its_own_and_of_another_are_not(root: Path) -> None:
    for name in ("c@y", "d@y"):
        (root / f"{WANTS}/{name}.service").symlink_to(f"/{LIB}/{name[:2]}.service")
    before = files(root)
    for name in ("c@y", "d@y"):
        (root / f"{WANTS}/{name}.service").unlink()
    ours, unknown = may_have_changed(DISABLE, before, files(root), ["a.service", "c@.service"])
    assert (ours, unknown) == ([f"/{WANTS}/c@y.service"], [])


def test_an_alias_is_a_link_among_the_units_that_leads_to_it(root: Path) -> None:
    (root / f"{ETC}/theirs.service").symlink_to(f"/{LIB}/o.service")
    (root / f"{WANTS}/odd.service").symlink_to(f"/{LIB}/a.service")
    (root / f"{ETC}/a.service.d").mkdir()
    units = disabled_with(Host(str(root), live=False), DISABLE, files(root))
    assert units == ["a.service", "alias.service", "b.service", "c@x.service"]


@pytest.mark.parametrize("argv", [("systemctl",), ("echo", "disable", "--", "a.service")])
def test_only_systemctl_disable_disables(root: Path, argv: tuple[str, ...]) -> None:
    before = files(root)
    disturb(root)
    step = Step(says="x", argv=argv, unit="a.service")
    assert disabled_with(Host(str(root), live=False), step, before) == []
    assert may_have_changed(step, before, files(root), ["a.service"]) == ([], [])


def test_what_brings_more_along_than_is_followed_is_not_known(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zombiescope.treatment.reach.MOST_UNITS", 3)
    assert disabled_with(Host(str(root), live=False), DISABLE, files(root)) is None
