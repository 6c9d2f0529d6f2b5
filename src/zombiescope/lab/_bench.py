"""One scenario at work under a diagnosis by the real command, and the score of many."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from zombiescope.core.errors import UserError
from zombiescope.lab._judge import Judgement, judge

SETTLE = 1.0  # seconds that a fault is given before anybody looks
COMMAND = (sys.executable, "-m", "zombiescope")


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario, diagnosed once."""

    name: str
    judgement: Judgement
    seconds: float  # from the start of the diagnosis to its word
    told: dict[str, Any]


def diagnosed(name: str, scenario: ModuleType, scale: float, folder: str = "") -> Run:
    """Make it happen, look at it while it happens or record it into `folder` and look afterwards, and judge."""
    began = time.monotonic()
    with scenario.run(scale):
        time.sleep(SETTLE)
        started = time.monotonic()
        # Logs are read back ten minutes: what an earlier scenario wrote there is not this one's.
        past = [word for probe in ("kmsg", "ray_logs") for word in ("--set", f"{probe}.PAST={started - began:.1f}")]
        if folder:
            _command("record", folder, "--for", f"{scenario.SECONDS:.0f}s", "--hz", "99", *past)
        else:
            told = _told("--seconds", str(scenario.SECONDS), *past)
    if folder:  # the fault is over: the recording must still tell
        told = _told(folder)
    return Run(name, judge(scenario.TRUTH, told), time.monotonic() - started, told)


def score(scenarios: dict[str, ModuleType], runs: int, scale: float, say: Callable[[Run], None]) -> list[Run]:
    """Each scenario so many times, in random order: none may live on what another left behind."""
    order = [name for name in scenarios for _ in range(runs)]
    random.shuffle(order)
    done = []
    for name in order:
        done.append(diagnosed(name, scenarios[name], scale))
        say(done[-1])
    return done


def table(runs: Sequence[Run]) -> Iterator[tuple[str, dict[str, int], float]]:
    """For each scenario how often each outcome came, and the median time to a verdict."""
    for name in sorted({run.name for run in runs}):
        its = [run for run in runs if run.name == name]
        counts: dict[str, int] = {}
        for run in its:
            counts[run.judgement.outcome] = counts.get(run.judgement.outcome, 0) + 1
        yield name, counts, sorted(run.seconds for run in its)[len(its) // 2]


def _told(*argv: str) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(_command("diagnose", "--format", "json", *argv))
    return shape


def _command(*argv: str) -> str:
    done = subprocess.run([*COMMAND, *argv], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise UserError(f"zombiescope {' '.join(argv)}: {done.stderr.strip()[-400:]}")
    return done.stdout
