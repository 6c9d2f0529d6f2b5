"""What it costs to start, against a bare Python that imports numpy."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench._commands import command, weigh

RUNS = 15


def ratios() -> Iterator[tuple[str, float, float, str]]:
    peer = (sys.executable, "-c", "import numpy")
    verbs = {"--help": command("--help"), "start of diagnose": command("diagnose", "--seconds", "0")}
    cost = dict.fromkeys((peer, *verbs.values()), float("inf"))
    for _ in range(RUNS):  # in turns, so that a noisy moment is everybody's
        for argv in cost:
            cost[argv] = min(cost[argv], weigh(*argv)[0])
    for name, argv in verbs.items():
        yield (
            f"{name} against import numpy",
            cost[argv] / cost[peer],
            3.0,
            f"{cost[argv]:.3f} s CPU against {cost[peer]:.3f} s",
        )
