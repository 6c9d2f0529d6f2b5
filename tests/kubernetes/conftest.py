"""The cluster that the tests of a run share, if its programs are built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import CANNOT
from tests.kernels.packages import Lacking
from tests.kubernetes.cluster import Cluster, running


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real API server."""
    try:
        started = running()
        found = started.__enter__()
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    try:
        yield found
    finally:
        started.__exit__(None, None, None)


@pytest.fixture
def controlled(cluster: Cluster) -> Cluster:
    """The same with its controllers."""
    try:
        cluster.start_controllers()
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    return cluster
