"""Simulated fleets for tests: made once in a folder of the session."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from zombiescope.fleet import reading, store
from zombiescope.fleet.compare import compare
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.simulated.fleet import simulate


def opened(folder: Path | str, hours: float = 24.0) -> Fleet:
    return reading.opened(store.opened(str(folder)), hours)


@cache
def made(root: str, story: str, nodes: int, hours: int, seed: int) -> tuple[Path, dict[str, Any]]:
    folder = Path(root) / f"{story}-{nodes}-{hours}-{seed}"
    return folder, simulate(str(folder), nodes, hours, seed, story, every=300)


def answered(folder: Path, story: str, nodes: int, hours: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The truth of a fleet, and what `compare` says of it."""
    where, truth = made(str(folder), story, nodes, hours, seed)
    return json.loads((where / "truth.json").read_text()) | truth, compare(opened(where))
