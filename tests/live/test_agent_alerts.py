"""A real leak, agent, Prometheus and Alertmanager: the alert fires, names the unit, and resolves."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from tests.agent.running import Agent, running
from tests.agent.test_dashboards import queries
from tests.conftest import PROJECT

from zombiescope.lab import crash_loop

pytestmark = [pytest.mark.kernel, pytest.mark.long, pytest.mark.usefixtures("memory_cgroups", "can_boot", "as_before")]
NOT_HERE = ("zombiescope_nic_resets_total", "zombiescope_trouble_seconds")  # panels that this fault leaves empty
WITHIN = 120.0  # seconds from the beginning of the fault to an alert in Alertmanager


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@contextmanager
def server(*argv: str, ready: str) -> Iterator[None]:
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while not answered(ready):
                assert process.poll() is None and time.monotonic() < deadline, argv
                time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait(20)


def answered(url: str) -> Any:
    try:
        with urlopen(url, timeout=5) as answer:
            content = answer.read()
    except (URLError, OSError):
        return None
    return json.loads(content) if content[:1] in b"[{" else content


def test_from_the_leak_to_the_alert_and_back(tmp_path: Path) -> None:
    missing = [name for name in ("prometheus", "prometheus-alertmanager") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"this machine cannot: apt-get install {' '.join(missing)}")
    prometheus, manager = free_port(), free_port()
    with ExitStack() as stack:
        fault = stack.enter_context(ExitStack())
        fault.enter_context(crash_loop.run())
        began = time.monotonic()
        options = ("--every", "10s", "--window", "1m", "--budget", "20%", "--set", "kmsg.PAST=0")
        agent = stack.enter_context(running(tmp_path / "rec", *options))
        _configure(tmp_path, agent, manager)
        stack.enter_context(
            server(
                "prometheus-alertmanager",
                f"--config.file={tmp_path}/alertmanager.yml",
                f"--storage.path={tmp_path}/alertmanager",
                f"--web.listen-address=127.0.0.1:{manager}",
                "--cluster.listen-address=",
                ready=f"http://127.0.0.1:{manager}/-/ready",
            )
        )
        stack.enter_context(
            server(
                "prometheus",
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/prometheus",
                f"--web.listen-address=127.0.0.1:{prometheus}",
                ready=f"http://127.0.0.1:{prometheus}/-/ready",
            )
        )

        def alerts() -> list[dict[str, Any]]:
            every = answered(f"http://127.0.0.1:{manager}/api/v2/alerts?active=true") or []
            return [it for it in every if it["labels"].get("sign") == "crash_looping_unit"]

        agent.until(alerts, WITHIN)
        took = time.monotonic() - began
        (alert,) = alerts()
        assert took < WITHIN and alert["labels"]["subject"] == "unit:ecs.service"
        assert "unit:ecs.service" in alert["annotations"]["summary"]
        assert not [
            it
            for it in answered(f"http://127.0.0.1:{prometheus}/api/v1/rules")["data"]["groups"]
            for it in it["rules"]
            if it["health"] == "err"
        ]
        empty = [it for it in queries() if not _result(prometheus, it)]
        assert all(any(name in it for name in NOT_HERE) for it in empty), empty
        fault.close()  # the unit is stopped, what it left is gone
        agent.until(lambda: not alerts(), 240)


def _result(port: int, query: str) -> list[Any]:
    found: list[Any] = answered(f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}")["data"]["result"]
    return found


def _configure(folder: Path, agent: Agent, manager: int) -> None:
    """Our rules as they are, but evaluated each second and without the pauses that would make the test slow."""
    rules = (PROJECT / "deploy" / "prometheus" / "zombiescope.rules.yml").read_text()
    rules = rules.replace("for: 2m", "for: 2s").replace("for: 1m", "for: 1s").replace("for: 5m", "for: 5s")
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{folder}/rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{manager}"]}}]}}]}}
scrape_configs: [{{job_name: zombiescope, static_configs: [{{targets: ["127.0.0.1:{agent.port}"]}}]}}]
"""
    )
    (folder / "alertmanager.yml").write_text("route: {receiver: none, group_wait: 1s}\nreceivers: [{name: none}]\n")
