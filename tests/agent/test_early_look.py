"""A real agent whose budget allows a look in five minutes, on a node where a container crashes."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from tests.agent.running import running
from tests.conftest import CANNOT
from tests.containerd import Containerd

pytestmark = [pytest.mark.beside, pytest.mark.skipif(os.geteuid() != 0, reason=CANNOT + "mount as nobody")]


def test_a_crash_is_looked_at_before_the_next_look_is_due(tmp_path: Path) -> None:
    node = Containerd(tmp_path)
    options = ("--every", "4s", "--window", "600s", "--budget", "0.05%", "--set", "container_exits.EVERY=0.5")
    with running(tmp_path / "rec", *options, through=node.through) as agent:

        def figure(name: str) -> float:
            found = re.search(rf"^zombiescope_{re.escape(name)} (\d\S*)", agent.get("/metrics").decode(), re.MULTILINE)
            return float(found[1]) if found else 0.0

        agent.until(lambda: figure("look_interval_seconds") > 30)  # what is saved for looks is used up
        looks = round(figure('looks_total{result="done"}'))
        assert looks > 0
        time.sleep(5.0)
        node.ends(5)
        agent.until(lambda: agent.said("looks sooner, as something crashed.*exit code 5"), 20)
        agent.looked(looks + 1)
