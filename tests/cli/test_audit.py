"""`zombiescope audit`: an image with the incident's agent, one that uses it, a healthy one, hostile names, no root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.audit.small_roots import ETC, LIB, root
from tests.conftest import Run

from zombiescope.cli import audit
from zombiescope.core import Host
from zombiescope.lab._systemd import asked_by_diagnosis, booted
from zombiescope.lab._units import ENDS, restarted

# As the agent's Debian package has it: no RestartPreventExitStatus=5.
ECS = "[Service]\nRestart=on-failure\nRestartSec=10s\nExecStart=/x\n[Install]\nWantedBy=multi-user.target\n"
WANTS = f"{ETC}/multi-user.target.wants"


def image(folder: Path, files: dict[str, str] | None = None, *, enabled: tuple[str, ...] = ("ecs",)) -> Path:
    units = {f"{LIB}/{name}.service": ECS for name in {"ecs", "nginx", *enabled}}
    links = {f"{WANTS}/{name}.service": f"/{LIB}/{name}.service" for name in enabled}
    root(folder, {**units, "etc/os-release": 'PRETTY_NAME="Ubuntu 20.04.6 LTS"\n', **(files or {})}, links)
    (folder / "usr/lib/modules/5.4.0-1103-aws").mkdir(parents=True)
    return folder


def asked(run: Run, folder: Path, *options: str, expect: int) -> dict[str, Any]:
    done = run("audit", "--root", str(folder), "--format", "json", *options, expect=expect)
    shape: dict[str, Any] = json.loads(done.stdout)
    return shape


def test_the_incidents_image_is_found(zombiescope: Run, tmp_path: Path) -> None:
    shape = asked(zombiescope, image(tmp_path), expect=1)
    (ecs,) = shape["units"]
    assert ecs["unit"] == "ecs.service" and ecs["agent"] == "ecs" and ecs["enabled_by"] == ["multi-user.target"]
    assert ecs["trouble"] == ["enabled, known to leak, and can restart forever"]
    assert (
        ecs["loops_for_ever"] and "exit code 5 means “do not restart me”, and the unit ignores it" in ecs["policy_says"]
    )
    assert ecs["used"] == "cannot tell", "in an image no cgroup and no process can be looked at"
    assert [it["held"] for it in ecs["signs_of_use"]] == [False] * 4 + [None] * 2
    assert ecs["fix"] and shape["system"] == "Ubuntu 20.04.6 LTS"
    assert [it["since"] for it in shape["kernel_lacks"]] == ["5.8", "5.9", "5.13", "6.12", "7.1"] and not shape["blind"]
    assert shape["services"] == 2


def test_an_agent_unused_by_its_files_alone(zombiescope: Run, tmp_path: Path) -> None:
    shape = asked(zombiescope, image(tmp_path, enabled=("datadog-agent",)), expect=1)
    told = {it["unit"]: (it["used"], it["trouble"]) for it in shape["units"]}
    assert told == {"datadog-agent.service": ("unused", ["unused"]), "ecs.service": ("cannot tell", [])}


@pytest.mark.parametrize(
    ("files", "enabled"),
    [
        ({"etc/ecs/ecs.config": "ECS_CLUSTER=prod\n"}, ("ecs",)),
        ({}, ()),
        ({f"{ETC}/ecs.service.d/fix.conf": "[Service]\nRestartPreventExitStatus=5\n"}, ("ecs",)),
    ],
    ids=["used", "disabled", "its fix is in"],
)
def test_clear(zombiescope: Run, tmp_path: Path, files: dict[str, str], enabled: tuple[str, ...]) -> None:
    assert not asked(zombiescope, image(tmp_path, files, enabled=enabled), expect=0)["units"][0]["trouble"]


def test_all_packages_timers_and_tsv(zombiescope: Run, tmp_path: Path) -> None:
    files = {
        f"{LIB}/often.timer": "[Timer]\nOnUnitActiveSec=30s\n[Install]\nWantedBy=timers.target\n",
        "var/lib/dpkg/info/nginx.list": "/lib/systemd/system/nginx.service\n",
    }
    image(tmp_path, files)
    (tmp_path / f"{ETC}/timers.target.wants").mkdir()
    (tmp_path / f"{ETC}/timers.target.wants/often.timer").symlink_to(f"/{LIB}/often.timer")
    shape = asked(zombiescope, tmp_path, "--all", expect=1)
    assert {it["unit"]: it["package"] for it in shape["units"]} == {"ecs.service": "", "nginx.service": "nginx"}
    assert shape["timers"] == [{"timer": "often.timer", "every_seconds": 30.0}]
    rows = zombiescope("audit", "--root", str(tmp_path), "--all", "--format", "tsv", expect=1).stdout.splitlines()
    assert rows[0].startswith("unit\tagent\tpackage\tenabled") and rows[1].startswith("ecs.service\tecs\t\tenabled\t")
    text = zombiescope("audit", "--root", str(tmp_path), expect=1).stdout
    assert "often.timer fires every 30 s" in text and "fix: systemctl mask ecs.service" in text
    assert "no       its configuration names a cluster" in text and "older than 5.8" in text


def test_hostile_names_are_shown_harmless(zombiescope: Run, tmp_path: Path) -> None:
    odd = "\x1b[31mcadvisor\n\udcff.service"
    image(tmp_path, {f"{LIB}/{odd}": ECS, f"{LIB}/ecs.service": ECS + "\x1b]0;evil\x07"})
    for form in ("text", "tsv", "json"):
        said = zombiescope("audit", "--root", str(tmp_path), "--format", form, expect=1).stdout
        assert "\x1b" not in said and "cadvisor" in said


def test_an_empty_root_is_blind_and_a_missing_one_a_mistake(zombiescope: Run, tmp_path: Path) -> None:
    done = zombiescope("audit", "--root", str(tmp_path), expect=3)
    assert "it has no systemd" in done.stderr
    assert "no such folder" in zombiescope("audit", "--root", str(tmp_path / "none"), expect=2).stderr


def test_without_systemd_unit_files_are_audited_and_it_is_said(
    zombiescope: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZOMBIESCOPE_SYSTEMD_BUS", f"unix:path={tmp_path}/nobody")
    if not Path("/usr/lib/systemd/system").exists():
        pytest.skip("no unit files on this machine")
    done = zombiescope("audit", "--all", "--format", "json")
    shape = json.loads(done.stdout)
    assert shape["services"] > 0 and any("away" in why for why in shape["blind"])
    assert done.returncode == (1 if any(it["trouble"] for it in shape["units"]) else 3)


@pytest.mark.kernel
def test_an_ordinary_user_may_audit_an_image(tmp_path: Path) -> None:
    image(tmp_path)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    # Asked once before it becomes somebody else: that one may not read our Python, so all of it must be loaded.
    expected = audit.shape(Host(str(tmp_path), live=False), every=True)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        os.write(write_end, json.dumps(audit.shape(Host(str(tmp_path), live=False), every=True)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        told = answer.read()
    assert os.waitpid(pid, 0)[1] == 0 and json.loads(told) == expected


@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.usefixtures("can_boot")
def test_a_running_systemd_is_asked(zombiescope: Run) -> None:
    with booted({"zslab-loop.service": restarted(ENDS, 0.1)}, label="audit") as systemd, asked_by_diagnosis(systemd):
        shape = json.loads(zombiescope("audit", "--format", "json", expect=1).stdout)
    (unit,) = (it for it in shape["units"] if it["unit"] == "zslab-loop.service")
    assert unit["trouble"] == ["restarts again and again"] and unit["restarts"] >= 3 and unit["loops_for_ever"]


def test_help_is_quick() -> None:
    """The bus library stays inside `run`."""
    code = "import sys, zombiescope.cli.audit; sys.exit('dbus_fast' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
