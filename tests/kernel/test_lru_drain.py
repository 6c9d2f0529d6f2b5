"""Pages touched a moment ago are on their lists once every core has been visited."""

from __future__ import annotations

import os

import pytest
from tests.conftest import CANNOT

from zombiescope.core import Host, Unreadable
from zombiescope.kernel.lru_drain import drain
from zombiescope.kernel.memcg_walk import walk
from zombiescope.kernel.named_zombies import named
from zombiescope.lab._zombies import leaked


def test_every_core_is_visited_and_we_stay_where_we_were() -> None:
    before = os.sched_getaffinity(0)
    assert drain(patience=10)
    assert os.sched_getaffinity(0) == before


@pytest.mark.kernel
def test_the_dead_of_this_moment_are_named_with_their_file() -> None:
    try:
        walk()
    except Unreadable as error:
        pytest.skip(CANNOT + str(error))
    for _ in range(5):
        with leaked(7, label="test-fresh") as leak:
            parent = "/" + os.path.basename(leak.parent)
            pins = {it.pinned_by for it in named(Host()).zombies if it.parent == parent}
        assert pins == {f"shmem: dev/shm/{os.path.basename(leak.file)}"}
