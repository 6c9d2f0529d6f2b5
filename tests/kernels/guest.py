"""The first process of a guest: writes what it saw as JSON.

With /plan.json it makes dead cgroups and runs our census; with /record.json it records, and kills the recorder.
"""

from __future__ import annotations

import base64
import ctypes
import fcntl
import glob
import io
import json
import os
import socket
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable
from typing import Any

sys.path.insert(0, "/site")

RESULT = "/dev/ttyS1"  # a line of its own: the kernel talks on the first
CGROUPS = "/sys/fs/cgroup"
GENERATIONS = "/sys/kernel/mm/lru_gen/enabled"
_PAGE = 4096
_FINIT_MODULE = 313  # x86-64
_LOOP_SET_FD = 0x4C00
_READ_ONLY = 1
_RESTART = 0x01234567  # QEMU takes it for the end (-no-reboot); needs no ACPI
# A page waits in a batch of its CPU, of at most 31, before it gets on a list where it can be found.
_MORE_THAN_A_BATCH = 64
_PATIENCE = 30.0  # seconds for the kernel's workers to let go of what nothing pins
RECORD = "/record.json"
_PR_SET_NAME = 15

libc = ctypes.CDLL(None, use_errno=True)


def boot(work: Callable[[dict[str, Any]], None]) -> None:
    """Mount what every process wants, do the work, write its result and end the guest."""
    for kind, place in (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")):
        mount(kind, place, kind)
    result: dict[str, Any] = {"release": os.uname().release, "init_at": uptime()}
    try:
        work(result)
    except BaseException:
        result["error"] = traceback.format_exc()
    with open(RESULT, "w") as line:
        line.write(json.dumps(result) + "\n")
    os.sync()
    libc.reboot(_RESTART)


def look(result: dict[str, Any]) -> None:
    with open("/plan.json") as file:
        plan = json.load(file)
    root = mount_cgroups(plan["hierarchy"])
    mount_files(plan)
    for leak in plan["leaks"]:
        make_parent(root, plan["hierarchy"], leak["parent"])
    in_child(lambda: pin_by_pages(root, plan["leaks"]))
    # Sockets pin as long as they are open, so they are ours, not a child's.
    held = [pin_by_socket(root, leak) for leak in plan["leaks"] if not leak["file"]]
    in_child(flush_batches)
    settle(root)
    result["made_at"] = uptime()
    result["walks"] = [walk_once(root)]
    if os.path.exists(GENERATIONS):  # the same pages again, on the lists of the other kind
        write(GENERATIONS, "n" if int(read(GENERATIONS), 16) & 1 else "y")
        result["walks"].append(walk_once(root))
    command = [sys.executable, "-SB", "-m", "zombiescope", "census", "--format", "json"]
    before = counted(root)
    told = subprocess.run(command, env={"PYTHONPATH": "/site"}, capture_output=True, text=True, check=False)
    result["census"] = json.loads(told.stdout) if told.returncode == 0 else {"error": told.stderr}
    result["counted"] = [before, counted(root)]
    result["sockets"] = sum(map(len, held))
    result["done_at"] = uptime()


def record(result: dict[str, Any]) -> None:
    """A recorder that is killed at some moment, on cores of which some are busy; its folder is part of the result."""
    plan = json.loads(read(RECORD))
    mount("tmpfs", "/tmp", "tmpfs")
    mount_cgroups(2)
    folder = "/tmp/recording"
    command = [sys.executable, "-SB", "-m", "zombiescope", "record", folder, "--hz", str(plan["hz"])]
    with open("/tmp/said", "w+") as said:
        recorder = subprocess.Popen(command, env={"PYTHONPATH": "/site"}, stderr=said)
        while not glob.glob(f"{folder}/*/head") and recorder.poll() is None:
            time.sleep(0.1)
        for core in plan["busy"]:  # now, so that their names are in the rings
            spin(plan["name"], core)
        time.sleep(plan["seconds"])
        if recorder.poll() is None:
            result["ran"] = int(read(f"/proc/{recorder.pid}/schedstat").split()[0]) / 1e9
            result["status"] = read(f"/proc/{recorder.pid}/status")
            result["written"] = sum(map(os.path.getsize, glob.glob(f"{folder}/*/head")))
            recorder.kill()
        result["ended"] = recorder.wait()
        said.seek(0)
        result["said"] = said.read()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder, "recording")
    result |= {"cores": os.cpu_count(), "recording": base64.b64encode(packed.getvalue()).decode()}
    result["done_at"] = uptime()


def spin(name: str, core: int) -> None:
    if os.fork() == 0:
        os.sched_setaffinity(0, {core})
        libc.prctl(_PR_SET_NAME, name.encode())
        while True:
            pass


def mount_cgroups(hierarchy: int) -> str:
    if hierarchy == 2:
        mount("cgroup2", CGROUPS, "cgroup2")
        write(f"{CGROUPS}/cgroup.subtree_control", "+memory")
        return CGROUPS
    mount("tmpfs", CGROUPS, "tmpfs")
    root = f"{CGROUPS}/memory"
    os.mkdir(root)
    mount("cgroup", root, "cgroup", data="memory")
    if os.path.exists(f"{root}/memory.use_hierarchy"):  # until v5.11; whoever starts services sets it
        write(f"{root}/memory.use_hierarchy", "1")
    return root


def mount_files(plan: dict[str, Any]) -> None:
    for point, kind in plan["mounts"].items():
        os.makedirs(point)
        if kind == "tmpfs":
            mount("tmpfs", point, "tmpfs")
            continue
        with open("/loop.ko") as module:
            libc.syscall(_FINIT_MODULE, module.fileno(), b"", 0)  # if that fails, there is no device to open
        image, device = os.open("/disk", os.O_RDWR), os.open("/dev/loop0", os.O_RDWR)
        fcntl.ioctl(device, _LOOP_SET_FD, image)
        mount("/dev/loop0", point, kind, flags=_READ_ONLY)


def make_parent(root: str, hierarchy: int, path: str) -> None:
    place = root
    for part in path.strip("/").split("/"):
        place += f"/{part}"
        if not os.path.exists(place):
            os.mkdir(place)
            if hierarchy == 2:
                write(f"{place}/cgroup.subtree_control", "+memory")


# What a process allocates meanwhile is charged to the cgroups it passes through; a child takes that with it.
def in_child(work: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("making dead cgroups failed; the console has more")


def pin_by_pages(root: str, leaks: list[dict[str, Any]]) -> None:
    for leak in leaks:
        if leak["file"]:
            pin_by_page(root, leak)


def pin_by_page(root: str, leak: dict[str, Any]) -> None:
    os.makedirs(os.path.dirname(leak["file"]), exist_ok=True)
    new = not os.path.exists(leak["file"])
    pages = os.open(leak["file"], os.O_CREAT | os.O_RDWR if new else os.O_RDONLY)
    os.posix_fadvise(pages, 0, 0, os.POSIX_FADV_RANDOM)  # or the first to read gets charged for all of it
    for number, name in enumerate(leak["names"]):
        folder = enter(root, leak["parent"], name)
        if new:
            os.pwrite(pages, b"z", number * _PAGE)
        else:
            os.pread(pages, 1, number * _PAGE)
        write(f"{root}/cgroup.procs", "0")
        os.rmdir(folder)


def pin_by_socket(root: str, leak: dict[str, Any]) -> list[socket.socket]:
    held = []
    for name in leak["names"]:
        folder = enter(root, leak["parent"], name)
        held.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        write(f"{root}/cgroup.procs", "0")
        os.rmdir(folder)
    return held


def enter(root: str, parent: str, name: str) -> str:
    folder = f"{root}{parent}/{name}"
    os.mkdir(folder)
    write(f"{folder}/cgroup.procs", "0")
    return folder


def flush_batches() -> None:
    file = os.memfd_create("flush")
    for core in os.sched_getaffinity(0):
        os.sched_setaffinity(0, {core})
        os.pwrite(file, bytes(_MORE_THAN_A_BATCH * _PAGE), core * _MORE_THAN_A_BATCH * _PAGE)


def settle(root: str) -> None:
    deadline, last = time.monotonic() + _PATIENCE, -1
    while time.monotonic() < deadline:
        time.sleep(1)
        now = counted(root)
        if now == last:
            return
        last = now


def walk_once(root: str) -> dict[str, Any]:
    from zombiescope.kernel.memcg_walk import walk

    for _ in range(5):  # a straggler that went away meanwhile would look like a difference
        before = counted(root)
        walked = walk()
        if counted(root) == before:
            break
    return {
        "counted": before,
        "generations": os.path.exists(GENERATIONS) and bool(int(read(GENERATIONS), 16) & 1),
        "version": walked.version,
        "restarts": walked.restarts,
        "longest_batch_seconds": walked.longest_batch_seconds,
        "dead": [[it.path, it.name, it.pinned_by] for it in walked.cgroups if it.dead],
        "live": [it.path for it in walked.cgroups if not it.dead],
    }


def counted(root: str) -> int:
    """The kernel's own count of dead memory cgroups."""
    if os.path.exists(f"{root}/cgroup.stat"):
        stat = dict(line.split() for line in read(f"{root}/cgroup.stat").splitlines())
        return int(stat.get("nr_dying_subsys_memory", stat["nr_dying_descendants"]))
    known = next(line.split()[2] for line in read("/proc/cgroups").splitlines() if line.startswith("memory\t"))
    return int(known) - sum(1 for _ in os.walk(root))


def mount(source: str, place: str, kind: str, *, flags: int = 0, data: str = "") -> None:
    if libc.mount(source.encode(), place.encode(), kind.encode(), flags, data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind}: {os.strerror(number)}", place)


def write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY)
    os.write(file, text.encode())
    os.close(file)


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def uptime() -> float:
    return float(read("/proc/uptime").split()[0])


if __name__ == "__main__":
    boot(record if os.path.exists(RECORD) else look)
