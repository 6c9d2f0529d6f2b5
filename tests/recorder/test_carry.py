"""What one head hands on to the next: whatever is not that is nothing, and never an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.recorder.carry import Carry, loaded


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"null", b'{"version": 1}', b'{"version": 2}', b"[" * 10**5, bytes(100), b'{"version": NaN}'],
)
def test_any_other_carry_is_none(content: bytes) -> None:
    assert loaded(content) == Carry()


@given(st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda it: st.lists(it, max_size=3), max_leaves=8))
def test_a_carry_of_another_shape_is_none(value: object) -> None:
    whole = json.loads(Carry(boot_id="a", end=1, comms={1: "a"}, last={1: 2}).saved())
    for key in whole.keys() - {"version"}:
        said = loaded(json.dumps({**whole, key: value}).encode())
        assert said == Carry() or isinstance(said.end, int)
