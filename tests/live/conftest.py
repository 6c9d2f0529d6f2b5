"""What tests of real faults have in common: the machine is afterwards as it was before."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.lab.machine_state import changes, machine_state

PATIENCE = 30.0  # seconds for the kernel to let go of what was killed


@pytest.fixture
def as_before() -> Iterator[set[str]]:
    """How the machine was; once what was killed has had time to go, it is so again."""
    before = machine_state()
    yield before
    deadline = time.monotonic() + PATIENCE
    while (left := changes(before)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left
