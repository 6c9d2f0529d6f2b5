"""A unit and a container that crash again and again on a real node, as the cluster sees it. All is by default.

Until the cluster has said it, what else the page offers is tried: it needs no finding.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import signal
import time
from calendar import timegm
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.kubernetes.kubelet import NAME
from tests.kubernetes.node.conftest import NAMESPACE, UNIT, Whole, few

pytestmark = pytest.mark.alone
SUBJECT = re.compile(r"container:default/crasher-[4-9b-f]+-[a-z0-9]{5}/web")
SOON = 180.0  # seconds until the cluster must say it


def commands(script: str) -> list[list[str]]:
    """Of what `fix --apply` prints; all else is comment."""
    lines = [shlex.split(line) for line in script.splitlines() if not line.startswith("#")]
    assert all(it[0] == "systemctl" and it[-1] == UNIT for it in lines), script
    return lines


def test_the_agent_runs_as_the_chart_says(whole: Whole) -> None:
    whole.until(whole.starved, 90)
    assert "Traceback" not in whole.logs()
    told = whole.cluster.conditions(NAME)
    assert told["Ready"]["status"] == "True", "what the kubelet says stays"
    assert json.loads(whole.agent_says("/healthz"))["healthy"]
    first = next(json.loads(line) for line in whole.logs().splitlines() if "records into" in line)
    began = whole.agent["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    print(f"the container began at {began}, the agent recorded at {first}")


def test_the_chart_s_own_test(crashing: Whole) -> None:
    for program_name in ("helm", "helm3"):
        assert "Succeeded" in crashing.helm("test", "zombiescope", program_name=program_name)


def test_hours_are_gathered_through_kubectl(crashing: Whole, tmp_path: Path, zombiescope: Any) -> None:
    """The agent listens on its pod's loopback address alone. It is too young to have an hour that is over. A recording
    has the machine's own name, which the kubelet was told not to use here."""
    done = zombiescope(
        "fleet", "gather", "--kubernetes", "--store", str(tmp_path), "--format", "json", env=crashing.page.environment
    )
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)
    assert (told["recording"], told["node"], told["why not"]) == (NAME, os.uname().nodename, "")


def test_the_recording_is_copied_and_shown(crashing: Whole, zombiescope: Any) -> None:
    page = crashing.page
    page.run("kubectl zombiescope record NODE")
    told = zombiescope("diagnose", str(crashing.folder / "rec"), "--format", "json", expect=None)
    assert told.returncode in (0, 1, 3) and '"verdicts"' in told.stdout, told.stderr
    page.run("kubectl zombiescope flame NODE")
    assert ";" in (crashing.folder / "folded").read_text().splitlines()[0]
    assert "cpu" in page.run("kubectl zombiescope top NODE").lower()
    with page.started("kubectl zombiescope view NODE") as viewing:
        try:
            assert viewing.stdout is not None
            url = viewing.stdout.readline().strip()
            with urlopen(url, timeout=60) as answer:
                assert b"<html" in gzip.decompress(answer.read()).lower()
        finally:
            viewing.send_signal(signal.SIGINT)
            viewing.communicate(timeout=60)


def test_the_cluster_names_what_crashes(crashing: Whole) -> None:
    whole = crashing
    left = SOON - (time.monotonic() - whole.notes["applied"])
    whole.until(lambda: whole.events("CrashLoopingUnit", UNIT) and whole.starved()["status"] == "True", left)
    print(f"the condition was there after {time.monotonic() - whole.notes['applied']:.0f} s at most")
    told = whole.starved()
    print(told["message"])
    assert (told["reason"] == "CrashLoopingUnit" and UNIT in told["message"]) or whole.outdone()
    left = SOON - (time.monotonic() - whole.notes["applied"])
    whole.until(lambda: whole.begun("crasher"), left)
    (event,) = whole.begun("crasher")
    print(event["message"])
    assert event["type"] == "Warning" and "of Deployment crasher" in event["message"]
    assert "exit code 5" in event["message"]


def test_the_table_shows_it(crashing: Whole) -> None:
    shown = crashing.page.run("kubectl zombiescope nodes", expect=1)
    (line,) = [it for it in shown.splitlines() if it.startswith(f"{NAME} ")]
    assert " True " in line
    # The container's ends are failed work, which is worse than a service that fails at its start.
    named = {"CrashLoopingContainer": "default/crasher-", "CrashLoopingUnit": UNIT}
    assert any(reason in line and name in line for reason, name in named.items()) or crashing.outdone()
    assert "CrashLoopingUnit" in crashing.page.run("kubectl describe node NODE")
    assert "CrashLoopingContainer" in crashing.page.run("kubectl get events")


def test_diagnose_returns_the_chain(crashing: Whole) -> None:
    """What the condition says is what the command that it names shows."""
    assert "keeps crashing" in crashing.page.run("kubectl zombiescope diagnose NODE", expect=1)
    asked = ["zombiescope", "diagnose", "/var/lib/zombiescope", "--last", "10m", "--format", "json"]
    done = crashing.cluster.kubectl(
        "exec", "-n", NAMESPACE, crashing.agent["metadata"]["name"], "--", *asked, expect=1
    )  # as a program has it
    told = json.loads(done.stdout)
    (chain,) = [it for it in told["chains"] if it[0]["subject"] == f"unit:{UNIT}"]
    assert [it["sign"] for it in chain] == ["crash_looping_unit", "zombie_cgroups"]
    (cause,) = [it for it in told["root_causes"] if SUBJECT.fullmatch(it["subject"])]
    assert cause["sign"] == "crash_looping_container" and "exit code 5" in cause["says"]
    assert not [it for it in told["findings"] if "/well-" in it["subject"]], "a job that ends well is no finding"
    # A look of ten seconds may fall between two crashes.
    assert "Traceback" not in crashing.page.run("kubectl zombiescope diagnose NODE --seconds", expect=None)


def test_what_would_help(crashing: Whole) -> None:
    """A container has advice alone; a unit has commands, which are typed on the node (see test_operations)."""
    told = crashing.page.run("kubectl zombiescope fix NODE", expect=1)
    print(told)
    assert "kubectl logs --previous" in told and f"systemctl mask -- {UNIT}" in told
    script = crashing.page.run("kubectl zombiescope fix NODE --apply", expect=None)
    print(script)
    assert commands(script)


def test_the_agent_asks_little(crashing: Whole) -> None:
    asked = [it for it in crashing.requests(0.0) if it["verb"] != "watch"]
    began = crashing.cluster.client.get(f"/api/v1/namespaces/{NAMESPACE}").body["metadata"]["creationTimestamp"]
    minutes = (time.time() - timegm(time.strptime(began, "%Y-%m-%dT%H:%M:%SZ"))) / 60
    few(asked, minutes * 60)


def test_an_observing_agent_may_not_drain(crashing: Whole) -> None:
    with crashing.page.started("kubectl zombiescope drain NODE") as draining:
        _, complaint = draining.communicate(timeout=60)
    assert draining.returncode == 1 and "in the variant remediate alone" in complaint, complaint
    assert "unschedulable" not in crashing.cluster.client.get(f"/api/v1/nodes/{NAME}").body["spec"]


def test_it_keeps_to_its_budget_and_its_memory(crashing: Whole) -> None:
    """CPU after its start, beside early looks; memory as the kernel counts it for the pod."""
    said = crashing.agent_says("/metrics")
    figures = dict(re.findall(r"^(zombiescope_own_\S+|zombiescope_look\S+) (\S+)", said, re.M))
    print(json.dumps(figures))
    status = crashing.agent["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0
    peak = crashing.kubelet.memory(crashing.agent["metadata"]["uid"])
    print(f"the agent's pod: {peak['peak'] / 1e6:.0f} MB at most, page cache included; {peak['rss'] / 1e6:.0f} MB now")
    assert peak["oom_kills"] == 0 and peak["rss"] < 0.6 * peak["limit"]
