"""A real Prometheus scrapes a real agent: as text, over mTLS, and with native histograms; the numbers are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.agent.running import running
from tests.agent.test_tls import context, got, pki, serves
from tests.peers import prometheus, result

from zombiescope.agent.protobuf import PROTOBUF

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
DELAY = "zombiescope_softirq_delay_seconds"
__all__ = ["pki"]  # a fixture


def test_native_histograms_and_every_core_over_mutual_tls(pki: Path, tmp_path: Path) -> None:
    options = serves(pki, "--tls-client-ca-file", str(pki / "ca.crt"), "--per-core", "--native-histograms")
    with running(tmp_path / "rec", *options, "--every", "5s", "--budget", "50%") as agent:
        agent.looked_by(lambda path: got(agent, path, context(pki, "client")), 2)
        files = f"ca_file: {pki}/ca.crt, cert_file: {pki}/client.crt, key_file: {pki}/client.key"
        configuration = f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: z
    scheme: https
    tls_config: {{{files}}}
    static_configs: [{{targets: ["127.0.0.1:{agent.port}"]}}]
"""
        with prometheus(tmp_path, configuration, "--enable-feature=native-histograms") as port:
            agent.until(lambda: result(port, f"histogram_count({DELAY}) > 0"))
            (count,) = (float(it["value"][1]) for it in result(port, f"histogram_count({DELAY})"))
            (total,) = (float(it["value"][1]) for it in result(port, f"histogram_sum({DELAY})"))
            assert result(port, f"histogram_quantile(0.99, {DELAY})")
            assert not result(port, "zombiescope_softirq_delay_seconds_bucket")
            cores = result(port, "zombiescope_cpu_kernel_seconds_total")
            (said,) = result(port, "zombiescope_cores")
            assert len(cores) == int(said["value"][1]) and {it["metric"]["cpu"] for it in cores} >= {"0"}
            assert result(port, "zombiescope_build_info") and result(port, "zombiescope_own_cpu_seconds_total")
            text = got(agent, "/metrics", context(pki, "client")).decode()
    now = float(re.findall(rf"^{DELAY}_count (\d+)", text, re.MULTILINE)[0])
    assert 0 < count <= now and 0 <= total <= float(re.findall(rf"^{DELAY}_sum ([\d.e-]+)", text, re.MULTILINE)[0])


def test_each_client_gets_the_form_it_prefers(tmp_path: Path) -> None:
    asked = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6"
    with running(tmp_path, "--native-histograms") as agent:
        for accept, form in (
            ("", b"# HELP"),
            ("*/*", b"# HELP"),
            (asked, b"zombiescope_"),
            (f"{asked},text/plain;q=0.7", b"# HELP"),
            (f"application/openmetrics-text;q=0.5,{asked}", b"zombiescope_"),
            (asked.replace("delimited", "text"), b"# HELP"),
            ("application/openmetrics-text;q=nonsense", b"# HELP"),
        ):
            assert form in agent.get("/metrics", Accept=accept)[:40], accept
    with running(tmp_path) as agent:
        assert agent.get("/metrics", Accept=PROTOBUF).startswith(b"# HELP")  # off unless it is asked for
