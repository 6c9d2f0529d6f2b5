"""What is expensive to find is found again later; what is cheap, sooner."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from zombiescope.probes._remembering import SOONER, renewing

EVERY = 0.9


def burn() -> None:
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize(("find", "again"), [(lambda: None, 2), (burn, 1)])
def test_renewed_sooner_where_it_costs_little(find: Callable[[], None], again: int) -> None:
    found = 0

    def renew() -> None:
        nonlocal found
        found += 1
        find()

    with renewing(renew, lambda: iter(()), EVERY) as look:
        look()
        look()
        assert found == 1
        time.sleep(EVERY / SOONER + 0.05)
        look()
        assert found == again
        time.sleep(EVERY)
        look()
        assert found == again + 1
