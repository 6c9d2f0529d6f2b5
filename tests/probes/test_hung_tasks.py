"""hung_tasks: the kernel's own count of tasks that did not get on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import machine, told

from zombiescope.core import Unparsable
from zombiescope.probes import hung_tasks


def test_read(tmp_path: Path) -> None:
    host = machine(tmp_path, {hung_tasks.SOURCE.lstrip("/"): "3\n"})
    assert told(hung_tasks, host) == {("hung_tasks_total", "node"): 3}


@pytest.mark.parametrize("text", ["", "x", "-1", "1 2", "9" * 30])
def test_damage(text: str) -> None:
    with pytest.raises(Unparsable):
        hung_tasks.parse(text)
