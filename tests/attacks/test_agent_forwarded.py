"""The agent of a pod, shown on somebody's own machine: others of that machine, pods of strangers, and its token."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.agent.running import running

from zombiescope.core import UserError
from zombiescope.plugin.forwarding import MOST, forwarded
from zombiescope.plugin.kubectl import Kubectl
from zombiescope.plugin.pods import Pod
from zombiescope.plugin.recording import pack

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
POD = Pod("zombiescope", "zombiescope-x1")


def kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Kubectl:
    """One that runs this for `kubectl exec`."""
    program = folder / "kubectl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return Kubectl()


def test_others_of_this_machine_ask_the_forwarded_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user of the machine that kubectl runs on connects to the port, and reads the node's pages."""
    with running(tmp_path / "rec", listen="") as agent:
        agent.until(lambda: agent.said("records into"))
        # What `kubectl exec … -- python3 -I -m zombiescope.agent.relay PATH` comes to, in the agent's own folder.
        script = f'for path; do :; done; exec {sys.executable} -m zombiescope.agent.relay "$path" {tmp_path}/rec'
        with forwarded(kubectl(tmp_path, monkeypatch, script), POD) as url:
            with urlopen(f"{url}/events", timeout=60) as answer:
                assert answer.read() == b"[]\n"
            with urlopen(f"{url}/page/", timeout=60) as answer:
                assert answer.headers["Content-Security-Policy"]
            there, _, word = url.rpartition("/")
            for guess in (there, f"{there}/events", f"{there}/{word}x/events", f"{there}/{word[:-1]}/events"):
                with pytest.raises(HTTPError, match="403"):
                    urlopen(guess, timeout=60)


def test_a_pod_answers_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that is no agent of ours fills the memory of whoever looks at it, or complains without end."""
    with (
        pytest.raises(UserError, match=f"longer than {MOST >> 20} MB"),
        forwarded(kubectl(tmp_path, monkeypatch, "exec cat /dev/zero"), POD),
    ):
        pass
    endless = "head -c 100000000 /dev/zero | tr '\\0' '\\033' >&2; exit 1"
    with (
        pytest.raises(UserError, match=r"^kubectl exec: ") as met,
        forwarded(kubectl(tmp_path, monkeypatch, endless), POD),
    ):
        pass
    assert len(str(met.value)) < 400 and "\x1b" not in str(met.value)


def test_a_recording_is_handed_on(tmp_path: Path) -> None:
    """A recording that was copied off a node is given to others: the agent's token would be in it."""
    with running(tmp_path / "rec") as agent:
        agent.until(lambda: agent.said("needs the token in"))
    assert (tmp_path / "rec/agent/token").exists()
    done = subprocess.run([sys.executable, *pack(str(tmp_path / "rec"))[1:]], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        names = archive.getnames()
    assert "agent/events.jsonl" in names and not [it for it in names if "token" in it]
