"""What the whole agent costs, beside `perf record` and node_exporter in the same run.

The agent records, looks once a minute and is scraped four times a minute; perf writes what its rings hold, at the same
rate; node_exporter is scraped as often. Of node_exporter only if it is here: `make peers`, or installed.
ZOMBIESCOPE_SECONDS=180 measures for a shorter time: less than five minutes may have no settling in it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.request import urlopen

from bench._commands import command
from zombiescope.agent.budget import memory_of
from zombiescope.core import UserError
from zombiescope.recorder.budget import default_share

WARM = 90.0  # seconds: starting up and the first look are paid once
SECONDS = float(os.environ.get("ZOMBIESCOPE_SECONDS", "330"))  # five looks, one whole segment with its settling
UNPACKED = os.path.join(os.path.dirname(__file__), "..", ".venv", "peers", "usr", "bin", "prometheus-node-exporter")
SCRAPED = 15.0
AGENT, EXPORTER = 19479, 19100  # ports on loopback
PERF = ("perf", "record", "-q", "-F", "49", "-a", "-g", "--switch-output=10s", "-o")
MOST_MEMORY = 120e6


def ratios() -> Iterator[tuple[str, float, float, str]]:
    if shutil.which("perf") is None:
        raise UserError("perf is not installed")
    with tempfile.TemporaryDirectory() as folder:
        (agent, perf, exporter), (memory, *sizes) = _beside(folder)
    budget = default_share(os.cpu_count() or 1)
    told = f", node_exporter {exporter:.2%}, {sizes[1] / 1e6:.0f} MB" if exporter else ", node_exporter is not here"
    perfs = f"perf record {perf:.2%}, {sizes[0] / 1e6:.0f} MB"
    detail = f"agent {agent:.2%} of one core, {memory / 1e6:.0f} MB PSS; {perfs}{told}; load {os.getloadavg()[1]:.1f}"
    yield "the agent against its budget", agent / budget, 1.2, detail
    yield "the agent's memory against 120 MB", memory / MOST_MEMORY, 1.0, detail
    yield "the agent against perf record and node_exporter", agent / (perf + exporter), 2.0, detail


def _beside(folder: str) -> tuple[list[float], list[int]]:
    """Shares of one core of agent, perf and node_exporter, and memory of each (PSS), all processes of the agent."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    argv = command("agent", "--dir", f"{folder}/rec", "--listen", f"127.0.0.1:{AGENT}")
    running = [subprocess.Popen(argv, **quiet), subprocess.Popen([*PERF, f"{folder}/perf.data"], **quiet)]  # type: ignore[call-overload]
    program = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter") or shutil.which(UNPACKED)
    if program:
        running.append(subprocess.Popen([program, f"--web.listen-address=127.0.0.1:{EXPORTER}"], **quiet))  # type: ignore[call-overload]
    try:
        _scraped(WARM, exporter=bool(program))
        began, before = time.monotonic(), _spent(running)
        _scraped(SECONDS, exporter=bool(program))
        after, passed = _spent(running), time.monotonic() - began
        found = re.findall(r'^zombiescope_own_memory_bytes{process="\w+"} (\d+)', _metrics(AGENT), re.MULTILINE)
        shares = [(now - then) / passed for now, then in zip(after, before, strict=True)]
        sizes = [sum(map(int, found)) or memory_of(running[0].pid), *(memory_of(it.pid) for it in running[1:])]
        return [*shares, 0.0][:3], sizes
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGINT)
            process.wait()


def _scraped(seconds: float, *, exporter: bool) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for port in (AGENT, EXPORTER) if exporter else (AGENT,):
            _metrics(port)
        time.sleep(min(SCRAPED, max(deadline - time.monotonic(), 0)))


def _metrics(port: int) -> str:
    with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())
    return ""


def _spent(running: list[subprocess.Popen[bytes]]) -> list[float]:
    """The agent counts its children by itself, those that ended too."""
    own = re.search(r"^zombiescope_own_cpu_seconds_total ([\d.e+]+)", _metrics(AGENT), re.MULTILINE)
    if own is None:
        raise UserError("the agent does not answer")
    return [float(own[1]), *(_ticks(it.pid) for it in running[1:])]


def _ticks(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
