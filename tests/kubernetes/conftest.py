"""The cluster that the tests of a run share, if its programs are built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conftest import CANNOT
from tests.kernels.packages import Lacking
from tests.kubernetes.cluster import Cluster, running
from tests.kubernetes.lent import or_skipped


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A real API server."""
    yield from or_skipped(running())


@pytest.fixture
def controlled(cluster: Cluster) -> Cluster:
    """The same with its controllers."""
    try:
        cluster.start_controllers()
    except Lacking as lacking:
        pytest.skip(CANNOT + str(lacking))
    return cluster
