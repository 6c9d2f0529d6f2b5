"""Real faults while we look: a loop that leaks is blamed, one that does not is not; dirty dead make a slow read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from tests.conftest import CANNOT, Run
from tests.waiting import until

from zombiescope.lab._zombies import leaked, memory_folder

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups", "none_is_freed")]

# What a supervisor does that restarts its container for ever: a new cgroup, a process in it, a page, and it is gone.
LOOP = """
import os, secrets, sys, time
parent, file, leaks, home = sys.argv[1], sys.argv[2], sys.argv[3] == "leaks", os.open(sys.argv[4], os.O_WRONLY)
pages = os.open(file, os.O_CREAT | os.O_RDWR)
print("on", flush=True)
for place in range(400):
    folder = f"{parent}/{secrets.token_hex(32)}"
    os.mkdir(folder)
    procs = os.open(f"{folder}/cgroup.procs", os.O_WRONLY)
    os.write(procs, b"0")
    os.close(procs)
    if leaks:
        os.pwrite(pages, b"z", place * 4096)
    os.write(home, b"0")
    os.rmdir(folder)
    time.sleep(0.04)
"""
# Statistics of the dead change when their pages do: read twice they become active, advised cold inactive again.
DIRTY = """
import ctypes, mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(file).st_size
pages = mmap.mmap(file, size)
address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
print("on", flush=True)
while True:
    for _ in range(2):
        for at in range(0, size, 4096):
            os.pread(file, 1, at)
    for at in range(0, size, 4096):
        pages[at]
    ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), 20)
"""


@contextmanager
def running(program: str, *argv: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", program, *argv], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        yield
    finally:
        process.kill()
        process.communicate()


def diagnosed_while_looping(zombiescope: Run, kind: str) -> dict[str, Any]:
    parent = f"{memory_folder()}/zombiescope-test-loop-{os.getpid()}"
    file = f"/dev/shm/{os.path.basename(parent)}"
    with open("/proc/self/cgroup") as lines:
        places = {line.split(":", 2)[1]: line.split(":", 2)[2].strip() for line in lines}
    home = memory_folder() + places.get("memory", places.get("", "")) + "/cgroup.procs"
    os.mkdir(parent)
    try:
        with running(LOOP, parent, file, kind, home):
            argv = ("--seconds", "5", "--format", "json", "--set", "zombie_cgroups.FEW=10")
            shape: dict[str, Any] = json.loads(zombiescope("diagnose", *argv).stdout)
            return shape
    finally:
        os.unlink(file)
        until(lambda: _removed(parent))


def _removed(parent: str) -> bool:
    for child in os.scandir(parent):
        if child.is_dir():
            os.rmdir(child.path)
    with suppress(OSError):  # its last process is ending
        os.rmdir(parent)
    return not os.path.exists(parent)


FAMILY = "family:/zombiescope-test-loop-<n>/<id>"


def test_a_loop_that_leaks_is_the_root_cause_of_the_dead(zombiescope: Run) -> None:
    shape = diagnosed_while_looping(zombiescope, "leaks")
    chain = next(chain for chain in shape["chains"] if len(chain) > 1)
    assert [it["sign"] for it in chain[:2]] == ["cgroup_churn", "zombie_cgroups"] and chain[0]["subject"] == FAMILY
    assert {"sign": "cgroup_churn", "subject": FAMILY}.items() <= shape["root_causes"][0].items()
    (link,) = (it for it in shape["links"] if it["law"] == "cgroup_churn_to_zombie_cgroups")
    assert [it["kind"] for it in link["grounds"]] == ["dose"] and link["grounds"][0]["evidence"]


def test_a_loop_that_leaves_nothing_is_found_and_not_blamed(zombiescope: Run) -> None:
    with leaked(150, label="test-innocent"):
        shape = diagnosed_while_looping(zombiescope, "leaves nothing")
    assert FAMILY in {it["subject"] for it in shape["findings"] if it["sign"] == "cgroup_churn"}
    assert not shape["links"]
    noted = {it["subject"] for it in (*shape["noted"], *shape["unsure"])}
    assert FAMILY in noted and FAMILY not in {it["subject"] for it in shape["root_causes"]}


def test_dead_with_changing_statistics_make_a_slow_read_and_are_blamed_for_it(zombiescope: Run) -> None:
    with leaked(3001, label="test-dirty") as leak, running(DIRTY, leak.file):
        time.sleep(1)
        argv = ("--seconds", "1", "--format", "json", "--set", "slow_stat_read.SLOW=0.001")
        shape = json.loads(zombiescope("diagnose", *argv).stdout)
    slow = [it["subject"] for it in shape["findings"] if it["sign"] == "slow_stat_read"]
    if not slow:
        verdict = next(it for it in shape["verdicts"] if it["sign"] == "slow_stat_read")
        pytest.skip(CANNOT + f"make a slow read with 3,001 dead: {verdict['says']}")
    assert "file:memory.stat" in slow
    assert {it["law"] for it in shape["links"]} == {"zombie_cgroups_to_slow_stat_read"}
