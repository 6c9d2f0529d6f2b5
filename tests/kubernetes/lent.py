"""What a test borrows for its time, and is skipped without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

import pytest
from tests.conftest import CANNOT
from tests.kernels.packages import Lacking

_Lent = TypeVar("_Lent")


def or_skipped(lender: AbstractContextManager[_Lent]) -> Iterator[_Lent]:
    """For a fixture: what is entered, or a skip where this machine cannot make it."""
    with ExitStack() as end:
        try:
            found = end.enter_context(lender)
        except Lacking as lacking:
            pytest.skip(CANNOT + str(lacking))
        yield found
