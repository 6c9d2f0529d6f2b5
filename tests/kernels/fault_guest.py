"""The first process of a guest in which one fault is made: diagnoses it with our command, with the fault and without.

/fault.json names the fault; the answers go to the second serial line, what the host shall do meanwhile as well.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

sys.path.insert(0, "/site")

from guest import RESULT, boot, libc, mount, mount_cgroups, read, uptime, write  # type: ignore[import-not-found]

CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_SET_MEMPOLICY, _MPOL_DEFAULT, _MPOL_BIND = 238, 0, 2  # x86-64
_WRITERS = 16
_LEFT = 120 << 20  # bytes of a NUMA node that are left free: half of the file that is read there
_RECLAIM = (
    "7"  # zone_reclaim_mode: with less, multi-generation LRU lists are left alone (mm/vmscan.c, lru_gen_shrink_node)
)
_RESERVE = "4096"  # KB that the kernel keeps free: by itself it takes a tenth of so small a node for huge pages
_SPINNER = "spinner"


def main(result: dict[str, Any]) -> None:
    plan = json.loads(read("/fault.json"))
    mount("tmpfs", "/tmp", "tmpfs")
    mount_cgroups(2)
    for name, answer in FAULTS[plan["fault"]](plan):
        result.setdefault("looks", {})[name] = answer
        result[f"{name}_at"] = uptime()
        tell(result | {"error": f"nothing came after {name}"})  # the last line is read, should it be stopped


def slow_clock(plan: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    with worker(ask_for_the_time), worker(ask_for_the_time):  # on one core, so that one of them waits
        for clock in plan["clocks"]:
            write(CLOCK, clock)
            yield clock, diagnose(plan) | {"clock": read(CLOCK).strip()}


def ask_for_the_time() -> None:
    os.sched_setaffinity(0, {1})
    while True:
        time.clock_gettime(time.CLOCK_MONOTONIC)


def vm_paused(plan: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    with worker(partial(spin, 0)), worker(partial(spin, 1)):
        yield "control", diagnose(plan)
        yield "stopped", diagnose(plan, meanwhile=lambda: tell({"please": "stopped"}))


def spin(core: int) -> None:
    os.sched_setaffinity(0, {core})
    while True:
        pass


def disk_stall(plan: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, disk in plan["disks"].items():
        with worker(partial(write_at_once, disk)):
            yield name, diagnose(plan)


def write_at_once(disk: str) -> None:
    for _ in range(_WRITERS - 1):
        if os.fork() == 0:
            libc.prctl(_PR_SET_PDEATHSIG, 9)  # it ends with whoever made it
            break
    page = mmap.mmap(-1, 4096)
    place = os.open(disk, os.O_WRONLY | os.O_DIRECT | os.O_DSYNC)
    while True:
        os.pwrite(place, page, os.getpid() % 1000 * 4096)


def console_flood(plan: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    with worker(partial(spin, 1)):  # who has to wait while others print
        yield "control", diagnose(plan)
        with worker(flood):
            yield "fault", diagnose(plan)


def flood() -> None:
    os.sched_setaffinity(0, {1})
    log, number = os.open("/dev/kmsg", os.O_WRONLY), 0
    while True:
        number += 1
        os.write(log, b"<3>eth0: bad packet %d: its checksum does not match" % number)


def numa_lopsided(plan: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """A program holds most of node 1 and reads a file from there: other node or reclaim, as the setting says."""
    write("/proc/sys/vm/min_free_kbytes", _RESERVE)
    for name, mode in (("control", "0"), ("fault", _RECLAIM)):
        write("/proc/sys/vm/drop_caches", "3")
        write("/proc/sys/vm/zone_reclaim_mode", mode)
        with worker(partial(hold_and_read, plan["disk"])):
            time.sleep(5)  # until it holds it
            yield name, diagnose(plan)


def hold_and_read(disk: str) -> None:
    os.sched_setaffinity(0, {1})
    size = _free(1) - _LEFT
    only = ctypes.c_ulong(1 << 1)
    libc.syscall(_SET_MEMPOLICY, _MPOL_BIND, ctypes.byref(only), 64)
    held = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, size, 4096):
        held[place] = 1
    libc.syscall(_SET_MEMPOLICY, _MPOL_DEFAULT, None, 0)
    file = os.open(disk, os.O_RDONLY)  # read, not mapped: what is mapped is not reclaimed for its node's sake
    while True:
        if not os.read(file, 1 << 20):
            os.lseek(file, 0, os.SEEK_SET)


def _free(node: int) -> int:
    """Bytes of its memory."""
    lines = read(f"/sys/devices/system/node/node{node}/meminfo").splitlines()
    return next(int(line.split()[3]) * 1024 for line in lines if "MemFree" in line)


FAULTS: dict[str, Callable[[dict[str, Any]], Iterator[tuple[str, Any]]]] = {
    it.__name__: it for it in (slow_clock, vm_paused, disk_stall, console_flood, numa_lopsided)
}


@contextmanager
def worker(work: Callable[[], None], name: str = _SPINNER) -> Iterator[None]:
    child = os.fork()
    if child == 0:
        libc.prctl(_PR_SET_NAME, name.encode())
        work()
    try:
        yield
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def diagnose(plan: dict[str, Any], meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
    command = [sys.executable, "-SB", "-m", "zombiescope", "diagnose", "--format", "json", "-o", "/tmp/answer"]
    command += ["--seconds", str(plan["seconds"]), *plan.get("options", ())]
    asked = subprocess.Popen(command, env={"PYTHONPATH": "/site"}, stderr=subprocess.PIPE, text=True)
    if meanwhile:
        time.sleep(plan["after"])
        meanwhile()
    complaint = asked.communicate()[1]
    if asked.returncode not in (0, 1, 3):
        return {"error": f"diagnose ended with {asked.returncode}: {complaint}"}
    answer = json.loads(read("/tmp/answer"))
    wanted = {it: answer[it] for it in ("span", "root_causes", "unsure", "noted", "findings")}
    verdicts = {it["sign"]: [it["state"], it["says"]] for it in answer["verdicts"]}
    return wanted | {"verdicts": verdicts, "complaint": complaint}


def tell(what: dict[str, Any]) -> None:
    with open(RESULT, "w") as line:
        line.write(json.dumps(what) + "\n")


if __name__ == "__main__":
    boot(main)
