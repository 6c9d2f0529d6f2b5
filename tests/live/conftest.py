"""What tests of real faults have in common: the machine is afterwards as it was before."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.machine_state import changes, machine_state
from tests.waiting import HANGS

from zombiescope.places.own_folders import LEDGER_ENVIRONMENT
from zombiescope.probes import cpu_throttling, pressure
from zombiescope.treatment.ledger import Ledger


@pytest.fixture
def as_before() -> Iterator[set[str]]:
    """How the machine was; once what was killed has had time to go, it is so again."""
    before = machine_state()
    yield before
    deadline = time.monotonic() + HANGS
    while (left := changes(before)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left


@pytest.fixture
def none_is_freed() -> None:
    """The kernel has let go of what earlier tests left: their number has not changed for a second."""
    last, since, deadline = -1, time.monotonic(), time.monotonic() + HANGS
    while time.monotonic() - since < 1.0 and time.monotonic() < deadline:
        if (now := _memory_cgroups()) != last:
            last, since = now, time.monotonic()
        time.sleep(0.1)


def _memory_cgroups() -> int:
    lines = (line.split() for line in Path("/proc/cgroups").read_text().splitlines())
    return next((int(it[2]) for it in lines if it[0] == "memory"), 0)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many intervals of throttling within a short test."""
    monkeypatch.setattr(cpu_throttling, "EVERY", 0.25)
    monkeypatch.setattr(pressure, "EVERY", 0.25)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv(LEDGER_ENVIRONMENT, str(tmp_path / "ledger"))
    return Ledger()


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of its own: what is written there stays until the test ends, and pins the cgroup that wrote it."""
    point = tmp_path / "logs"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)
