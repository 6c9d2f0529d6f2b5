"""Run one scenario under the real `diagnose` command and judge the answer; score many of them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from zombiescope.core.errors import UserError
from zombiescope.lab._judge import Judgement, judge
from zombiescope.lab._litter import others
from zombiescope.lab._scenario import name_for
from zombiescope.lab._steady_load import BESIDE, steady_load
from zombiescope.places.own_folders import LAB_ENVIRONMENT
from zombiescope.places.own_python import FOLDER, environment, own_python
from zombiescope.recorder.layout import HEAD_FILE

FLUSH = 2.0  # seconds: what a recorder that is killed may lose
SETTLE = 1.0  # seconds for a fault to build up before the diagnosis starts
PATIENCE = 60.0  # seconds to wait for another lab on this machine to end
DISTURBED = 3  # tries while another lab is running; after that the answer counts as it is
IDLE_FOR = 0.5  # seconds over which the load of other work is measured
COMMAND = own_python("zombiescope")


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario, diagnosed once."""

    name: str
    judgement: Judgement
    seconds: float  # from the start of the diagnosis to its answer
    told: dict[str, Any]
    idle: float  # cores left idle by other work, before or after the run, whichever was less
    disturbed: int = 0  # earlier tries during which another lab was running


def diagnosed(
    name: str,
    scenario: ModuleType,
    scale: float,
    folder: str = "",
    *,
    beside: float = 0.0,
    killed: bool = False,
) -> Run:
    """Make the fault happen, diagnose it live or from a recording, and judge the answer.

    With `folder` it is recorded there. A scenario that is over before the diagnosis is always recorded, if need be
    into a temporary folder. With `beside` an innocent load takes that share of each core. With `killed` the recorder is
    killed, and what it left is settled when all of the fault has ended: nobody can be asked for a name then.
    """
    if folder or not (killed or getattr(scenario, "RECORDED", False)):
        return _diagnosed(name, scenario, scale, os.path.abspath(folder) if folder else "", beside, killed)
    with tempfile.TemporaryDirectory(prefix=f"{name_for('recording')}-") as own:
        return _diagnosed(name, scenario, scale, own, beside, killed)


def _diagnosed(name: str, scenario: ModuleType, scale: float, folder: str, beside: float, killed: bool) -> Run:
    idle = _idle_cores()
    began = time.monotonic()
    with steady_load(beside), scenario.run(scale):
        time.sleep(SETTLE)
        started = time.monotonic()
        # Logs are read back ten minutes; leave out lines that an earlier scenario wrote.
        past = [word for probe in ("kmsg", "ray_logs") for word in ("--set", f"{probe}.PAST={started - began:.1f}")]
        if killed:
            _killed(folder, scenario.SECONDS, past)
        elif folder:
            _command("record", folder, "--for", f"{scenario.SECONDS:.0f}s", "--hz", "99", *past)
        else:
            told = _told("--seconds", str(scenario.SECONDS), *past)
    if folder:  # the fault is over: the recording must still show it
        told = _told(folder)
    seconds = time.monotonic() - started
    judgement = judge(scenario.TRUTH, told, beside=BESIDE if beside else "")
    return Run(name, judgement, seconds, told, min(idle, _idle_cores()))


def order(names: Iterable[str], runs: int, seed: int) -> list[str]:
    """Each name so many times, in random order, so that no scenario depends on leftovers of another."""
    every = [name for name in names for _ in range(runs)]
    random.Random(seed).shuffle(every)
    return every


def undisturbed(
    name: str,
    scenario: ModuleType,
    scale: float,
    say: Callable[[str], None],
    *,
    beside: float = 0.0,
    killed: bool = False,
) -> Run:
    """Diagnose while no other lab is running here; if one started during the run, repeat it, right or wrong."""
    for tried in range(DISTURBED):
        deadline = time.monotonic() + PATIENCE
        while (them := others()) and time.monotonic() < deadline:
            time.sleep(1.0)
        run = replace(diagnosed(name, scenario, scale, beside=beside, killed=killed), disturbed=tried)
        if not them and not (them := others()):
            break
        say(f"{name}: {run.judgement}, disturbed by another lab ({them[0]})")
    return run


def table(runs: Sequence[Run]) -> Iterator[tuple[str, dict[str, int], float]]:
    """For each scenario: how often each outcome occurred, and the median time to a verdict."""
    for name in sorted({run.name for run in runs}):
        its = [run for run in runs if run.name == name]
        counts: dict[str, int] = {}
        for run in its:
            counts[run.judgement.outcome] = counts.get(run.judgement.outcome, 0) + 1
        yield name, counts, sorted(run.seconds for run in its)[len(its) // 2]


def _idle_cores() -> float:
    """How many cores are idle right now."""
    before, began = _idle_seconds(), time.monotonic()
    time.sleep(IDLE_FOR)
    return (_idle_seconds() - before) / (time.monotonic() - began)


def _idle_seconds() -> float:
    """Idle time of all cores since boot, with iowait: see proc(5)."""
    with open("/proc/stat") as stat:
        ticks = stat.readline().split()[4:6]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _killed(folder: str, seconds: float, past: Sequence[str]) -> None:
    """Record for so long, and end it as a crash would: what is there is a head that nobody has settled."""
    command, environ = [*COMMAND, "record", folder, "--hz", "99", *past], environment() | {LAB_ENVIRONMENT: "1"}
    recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=FOLDER, env=environ)
    try:
        while not any(os.path.exists(os.path.join(folder, it, HEAD_FILE)) for it in _listed(folder)):
            if recorder.poll() is not None:
                raise UserError(f"zombiescope record ended with {recorder.returncode}")
            time.sleep(0.05)
        time.sleep(seconds + FLUSH)
    finally:
        recorder.kill()
        recorder.wait()


def _listed(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _told(*argv: str) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(_command("diagnose", "--format", "json", *argv))
    return shape


def _command(*argv: str) -> str:
    """What the command prints. Blind (exit code 3) is an answer; a crash with the same exit code is not."""
    environ = environment() | {LAB_ENVIRONMENT: "1"}  # it sees the log lines that the lab injects
    done = subprocess.run([*COMMAND, *argv], capture_output=True, text=True, check=False, cwd=FOLDER, env=environ)
    if done.returncode not in (0, 1, 3) or (argv[0] == "diagnose" and not done.stdout):
        raise UserError(f"zombiescope {' '.join(argv)}: {done.stderr.strip()[-400:]}")
    return done.stdout
