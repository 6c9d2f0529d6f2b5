"""What is shipped to be installed: rules that promtool proves, a unit that systemd accepts, pages behind links."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.agent.test_metrics import look, seen, text
from tests.conftest import PROJECT
from tests.peers import peer
from tests.test_docs import anchors

from zombiescope.cli._agent_keys import KEYS, settings_of
from zombiescope.kernel.rights import Rights

DEPLOY = PROJECT / "deploy"
RULES = DEPLOY / "prometheus" / "zombiescope.rules.yml"
UNIT = DEPLOY / "systemd" / "zombiescope-agent.service"


@pytest.fixture
def promtool() -> str:
    return peer("promtool")[0]


def test_the_rules_are_right_and_do_what_their_tests_say(promtool: str) -> None:
    checked = subprocess.run([promtool, "check", "rules", "--lint-fatal", RULES], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    tested = subprocess.run(
        [promtool, "test", "rules", "zombiescope.rules.test.yml"], capture_output=True, text=True, cwd=RULES.parent
    )
    assert tested.returncode == 0, tested.stdout


def alerts() -> list[str]:
    return re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.MULTILINE)


def test_every_alert_is_tested_and_has_a_page() -> None:
    tests = (RULES.parent / "zombiescope.rules.test.yml").read_text()
    pages = anchors((PROJECT / "docs" / "alerts.md").read_text())
    assert len(alerts()) >= 12
    for alert in alerts():
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts", tests), f"{alert} is never seen to fire"
        assert f"RUNBOOKS/alerts.md#{alert.lower()}\n" in RULES.read_text()
        assert alert.lower() in pages


def test_every_metric_in_the_rules_is_one_that_we_export() -> None:
    used = set(re.findall(r"\bzombiescope_[a-z_]+", RULES.read_text()))
    # A native histogram has the name of its type alone.
    exported = set(re.findall(r"^(?:# TYPE )?(zombiescope_[a-z_]+)", text(seen(look())), re.MULTILINE))
    assert used and used <= exported


def test_the_operator_s_form_is_the_same() -> None:
    wrapped = (RULES.parent / "prometheusrule.yaml").read_text().partition("spec:\n")[2]
    rules = "".join(line for line in RULES.read_text().splitlines(keepends=True) if not line.startswith("#"))
    assert re.sub(r"^  ", "", wrapped, flags=re.MULTILINE) == rules


def test_systemd_has_nothing_to_say_of_the_unit() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", UNIT], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if UNIT.name in line and "not executable" not in line]
    assert not said


def test_the_unit_keeps_every_capability_that_check_asks_for() -> None:
    from zombiescope.cli._agent_check import CAPABILITIES

    kept = re.search(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    assert kept and set(kept[1].split()) == {name for _, name, _ in CAPABILITIES}
    assert all(Rights(1 << bit, filtered=False).has(bit) for bit, _, _ in CAPABILITIES)


def test_the_example_configuration_is_read_and_names_every_key() -> None:
    path = DEPLOY / "systemd" / "agent.toml"
    assert settings_of(str(path), {}, ()).log_format == "json"
    named = {name.replace("-", "_") for name in re.findall(r"^(?:# )?([a-z-]+) = ", path.read_text(), re.MULTILINE)}
    assert named == {*KEYS, "set"} - {"webhook_token_file"}


def test_every_metric_and_every_key_is_documented() -> None:
    page = (PROJECT / "docs" / "agent.md").read_text()
    names = set(re.findall(r"^# TYPE (zombiescope_[a-z_]+)", text(seen(look())), re.MULTILINE))
    assert not [name for name in names if f"`{name}" not in page]
    assert not [key for key in [*KEYS, "set"] if f"`{key.replace('_', '-')}`" not in page]


def test_install_and_uninstall_leave_nothing_but_settings(tmp_path: Path) -> None:
    """The files alone: what pip does is tested by tests of the package."""
    plan = subprocess.run(
        ["make", "--dry-run", "install", "uninstall", f"DESTDIR={tmp_path}", "PREFIX=/opt/z"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [line for line in plan.splitlines() if "python" not in line and "npm" not in line]
    made = [line for line in lines if line.startswith(("install ", "test ", "sed "))]
    gone = [line for line in lines if line.startswith("rm ") and str(tmp_path) in line]
    script = tmp_path / "opt/z/bin/zombiescope"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!{tmp_path}/opt/z/bin/python\n")
    for line in made[: made.index(next(it for it in made if it.startswith("sed "))) + 1]:
        subprocess.run(line, shell=True, cwd=PROJECT, check=True)
    settings, unit = tmp_path / "etc/zombiescope/agent.toml", tmp_path / "etc/systemd/system/zombiescope-agent.service"
    assert settings.stat().st_mode & 0o777 == 0o600 and settings.parent.stat().st_mode & 0o777 == 0o700
    assert script.read_text() == "#!/opt/z/bin/python\n"
    assert "ExecStart=/opt/z/bin/zombiescope agent" in unit.read_text()
    for line in gone:
        subprocess.run(line, shell=True, cwd=PROJECT, check=True)
    assert not unit.exists() and settings.exists()


def test_the_playbook_s_settings_are_keys() -> None:
    text_ = (DEPLOY / "ansible" / "zombiescope.yml").read_text()
    told = re.search(r"zombiescope_settings:\n((?: {6}\S.*\n)+)", text_)
    assert told
    named = re.findall(r"^ {6}([a-z-]+):", told[1], re.MULTILINE)
    assert named and {it.replace("-", "_") for it in named} <= set(KEYS)


def test_what_a_fix_needs_is_allowed_by_the_drop_in_alone() -> None:
    drop_in = (DEPLOY / "systemd" / "remediate.conf").read_text()
    assert "ReadWritePaths=/etc/systemd" in drop_in and "ReadWritePaths" not in UNIT.read_text()
    assert "remediate" not in re.sub(r"#.*", "", (DEPLOY / "systemd" / "agent.toml").read_text())  # off as shipped
