"""A real leak, agent, Prometheus and Alertmanager: the alert fires, names the unit, and resolves after `fix`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.agent.running import Agent, running
from tests.agent.test_dashboards import queries
from tests.conftest import PROJECT, Run
from tests.live.leaking_agent import leaking
from tests.peers import answered, free_port, peer, prometheus, result, server

from zombiescope.treatment.ledger import Ledger

pytestmark = [pytest.mark.kernel, pytest.mark.long, pytest.mark.usefixtures("memory_cgroups", "can_boot", "as_before")]
# Panels that this fault leaves empty.
NOT_HERE = (
    "zombiescope_nic_resets_total",
    "zombiescope_trouble_seconds",
    "zombiescope_workload_throttled_seconds_total",
)
WITHIN = 120.0  # seconds from the beginning of the fault to an alert in Alertmanager
PANELS = 240.0  # seconds until every panel shows something: recorded series need some minutes
RESOLVED = 1200.0  # seconds: the agent holds a finding for five minutes, the rule an alert for five more


def test_from_the_leak_to_the_alert_and_back(tmp_path: Path, zombiescope: Run, logs: Path, ledger: Ledger) -> None:
    alertmanager, manager = peer("prometheus-alertmanager"), free_port()
    peer("prometheus")
    with ExitStack() as stack:
        systemd = stack.enter_context(leaking(logs, dead=0))
        systemd.systemctl("stop", "ecs.service")
        # Every setting is what an agent has by default: how often it looks, what it may cost, when a finding ends.
        agent = stack.enter_context(running(tmp_path / "rec", "--set", "kmsg.PAST=0"))
        configuration = _configured(tmp_path, agent, manager)
        stack.enter_context(
            server(
                *alertmanager,
                f"--config.file={tmp_path}/alertmanager.yml",
                f"--storage.path={tmp_path}/alertmanager",
                f"--web.listen-address=127.0.0.1:{manager}",
                "--cluster.listen-address=",
                ready=f"http://127.0.0.1:{manager}/-/ready",
            )
        )
        port = stack.enter_context(prometheus(tmp_path, configuration))

        def alerts() -> list[dict[str, Any]]:
            every = answered(f"http://127.0.0.1:{manager}/api/v2/alerts?active=true") or []
            return [it for it in every if it["labels"].get("sign") == "crash_looping_unit"]

        agent.looked()  # a node that was healthy so far
        systemd.systemctl("start", "--no-block", "ecs.service")
        began = time.monotonic()
        agent.until(alerts, WITHIN)
        took = time.monotonic() - began
        (alert,) = alerts()
        assert took < WITHIN and alert["labels"]["subject"] == "unit:ecs.service"
        assert "unit:ecs.service" in alert["annotations"]["summary"]
        assert not [
            it
            for it in answered(f"http://127.0.0.1:{port}/api/v1/rules")["data"]["groups"]
            for it in it["rules"]
            if it["health"] == "err"
        ]
        agent.until(lambda: not _empty(port), PANELS)
        zombiescope("fix", "ecs.service", "--apply", "--seconds", "2", "--hz", "0", expect=0)
        assert systemd.show("ecs.service", "ActiveState") in ("inactive", "failed") and len(ledger.fixes()) == 1
        agent.until(lambda: not alerts(), RESOLVED)


def _empty(port: int) -> list[str]:
    """Queries of the dashboards that show nothing and should."""
    return [it for it in queries() if not any(name in it for name in NOT_HERE) and not result(port, it)]


def _configured(folder: Path, agent: Agent, manager: int) -> str:
    """Our rules as they are, scraped and evaluated four times a minute."""
    rules = PROJECT / "deploy" / "prometheus" / "zombiescope.rules.yml"
    (folder / "alertmanager.yml").write_text("route: {receiver: none, group_wait: 1s}\nreceivers: [{name: none}]\n")
    return f"""
global: {{scrape_interval: 15s, evaluation_interval: 15s}}
rule_files: [{rules}]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["127.0.0.1:{manager}"]}}]}}]}}
scrape_configs: [{{job_name: zombiescope, static_configs: [{{targets: ["127.0.0.1:{agent.port}"]}}]}}]
"""
