"""`fix --apply --allow-disruptive` and `drain` of the kubectl plugin, with a program in kubectl's place that says what
it was asked; what the real one does is in tests/kubernetes/node.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import COMMAND

from zombiescope.plugin.__main__ import main
from zombiescope.plugin.draining import planned

KUBECTL = """#!{python}
import json, subprocess, sys
words = sys.argv[1:]
if words[:2] == ["get", "node"]:
    print(json.dumps({{"status": {{"conditions": [{{"type": "Ready", "status": "True"}}]}}}}))
elif words[0] == "get":
    spec = {{"nodeName": "n1", "serviceAccountName": "zombiescope", "containers": [{{"name": "agent"}}]}}
    owner = {{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "zombiescope", "controller": True}}
    about = {{"namespace": "zombiescope", "name": "a", "ownerReferences": [owner]}}
    print(json.dumps({{"items": [{{"metadata": about, "spec": spec}}]}}))
elif "diagnose" in words:
    sys.exit(subprocess.run([{command!r}, "diagnose", "--sample", "--format", "json"]).returncode)
else:
    print("asked:", *words[words.index("--") + 1:])
    sys.exit(1 if {fails!r} in words else 0)
"""
ASKED = "asked: python3 -I -m zombiescope.kubernetes.drain_command"


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(fails: str = "nothing") -> None:
        program = tmp_path / "kubectl"
        program.write_text(KUBECTL.format(python=sys.executable, command=str(COMMAND), fails=fails))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    made()
    return made


def asked(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [it.removeprefix(ASKED).strip() for it in capfd.readouterr().out.splitlines() if it.startswith(ASKED)]


@pytest.mark.usefixtures("kubectl")
def test_a_planned_reboot_is_drained_for_if_that_is_allowed(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fix", "n1", "--apply"]) == 1
    assert asked(capfd) == []
    assert main(["fix", "n1", "--allow-disruptive"]) == 1
    assert asked(capfd) == []
    assert main(["fix", "n1", "--apply", "--allow-disruptive"]) == 0
    assert asked(capfd) == ["cordon n1", "drain n1"]


def test_what_fails_ends_it_and_the_way_back_is_said(kubectl: Any, capfd: pytest.CaptureFixture[str]) -> None:
    kubectl("cordon")
    assert main(["drain", "n1"]) == 1
    told = capfd.readouterr()
    assert "cordon n1" in told.out and "drain n1\n" not in told.out
    assert "kubectl zombiescope drain n1 --undo makes it usable again" in told.err
    assert main(["drain", "n1", "--undo"]) == 0
    assert asked(capfd) == ["uncordon n1"]


def test_kured_drains_by_itself() -> None:
    steps = [{"says": "cordon", "argv": ["x"]}, {"says": "mark", "argv": ["touch", "/var/run/reboot-required"]}]
    assert planned({"remedies": [{"name": "drain_and_reboot", "steps": steps}]})
    assert not planned({"remedies": [{"name": "drain_and_reboot", "steps": steps[1:]}]})
    assert not planned({"remedies": [{"name": "other", "steps": steps}]})
