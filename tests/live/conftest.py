"""What tests with real cgroups need of the machine."""

from __future__ import annotations

import pytest
from tests.conftest import CANNOT

from zombiescope.core import UserError
from zombiescope.lab._zombies import memory_folder


@pytest.fixture
def memory_cgroups() -> None:
    try:
        memory_folder()
    except UserError as error:
        pytest.skip(CANNOT + str(error))
