"""Another user of this machine: what it does, in a process of its own."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - for names of hosts: that user may not be able to read Python's own folder
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.conftest import CANNOT

NOBODY = 65534
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason=CANNOT + "become another user without root")


def as_stranger(act: Callable[[], Any]) -> Any:
    """What it comes to, as JSON; an OSError as its number."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _become()
            os.write(writing, json.dumps(_comes_to(act)).encode())
        finally:
            os._exit(0)  # whatever happens: this is a copy of the whole test run
    os.close(writing)
    with open(reading, "rb") as pipe:
        content = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(content)


def _comes_to(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except OSError as error:
        return error.errno


@contextmanager
def stranger(act: Callable[[], object]) -> Iterator[int]:
    """It goes on until the test no longer needs it."""
    pid = os.fork()
    if not pid:
        try:
            _become()
            act()
        finally:
            os._exit(0)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
