"""A look that takes too much memory or CPU time ends alone, says which, and the limits end with it."""

from __future__ import annotations

import resource
import select
from typing import Any

import pytest

from zombiescope.agent.apart import Act, Apart
from zombiescope.core import UserError
from zombiescope.recorder.own_limits import restricted

KINDS = (resource.RLIMIT_DATA, resource.RLIMIT_CPU)


def spin() -> None:
    while True:
        sum(range(10_000))


def test_a_look_of_this_process_is_stopped_with_a_plain_word() -> None:
    before = [resource.getrlimit(it) for it in KINDS]
    with pytest.raises(UserError, match=r"needs more than 2\.1 GB of memory: look for a"), restricted(2 << 30, 600):
        bytearray(64 << 30)
    with pytest.raises(UserError, match=r"stopped after 1 s of CPU time: look for a"), restricted(64 << 30, 1):
        spin()
    assert [resource.getrlimit(it) for it in KINDS] == before


def head_of(act: Act) -> dict[str, Any]:
    copy = Apart(act, patience=5.0, most_seconds=120.0, most_memory=4 << 30, most_cpu=1)
    while not copy.over:
        ready, _, _ = select.select([copy.reading], [], [], 1.0)
        copy.step(ready=bool(ready))
    return copy.head


def test_a_copy_that_takes_too_much_is_said_to() -> None:
    def much() -> tuple[dict[str, Any], bytes]:
        return {}, bytes(64 << 30)

    def long() -> tuple[dict[str, Any], bytes]:
        spin()
        return {}, b""

    assert head_of(much)["error"] == "it needs more than 4.3 GB of memory; a shorter range needs less"
    assert head_of(long)["error"] == "the look ended early: it took more than 1 s of CPU time"
    assert head_of(lambda: ({"fine": True}, b""))["fine"], "and the next one is as before"
