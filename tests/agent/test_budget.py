"""How often it looks, by what a look and all else cost; and what a real process costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from zombiescope.agent.budget import cpu_of, memory_of, pause


@pytest.mark.parametrize(
    ("look", "others", "seconds"),
    [
        (0.1, 0.003, 60.0),  # as asked
        (0.7, 0.003, 100.0),  # 0.7 s in 100 s and 0.3 % are the budget
        (0.4, 0.02, 100.0),  # the others take it all: two fifths of it are for looks
        (30.0, 0.003, 300.0),  # never so seldom that a moment is looked at once only
    ],
)
def test_the_pause(look: float, others: float, seconds: float) -> None:
    assert pause(60.0, 600.0, look=look, others=others, budget=0.01) == pytest.approx(seconds)


def test_the_cost_of_a_process_with_its_children_that_ended() -> None:
    burns = "import os, time\nif not os.fork():\n while time.process_time() < 0.5: pass\n os._exit(0)\nos.wait()\n"
    hold = "held = bytearray(50_000_000)\nprint('ready', flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", burns + hold], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        time.sleep(0.05)
        assert 0.4 < cpu_of(process.pid) < 5
        assert 50_000_000 < memory_of(process.pid) < 100_000_000
        process.kill()
    assert cpu_of(process.pid) == 0 and memory_of(process.pid) == 0
    assert memory_of(os.getpid()) > 1_000_000
