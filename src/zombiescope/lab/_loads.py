"""Processes of the memory and network scenarios: each ends with the scenario and does one thing.

They die with the process that started them, however it ends, and at the latest after `LONGEST` seconds.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np

from zombiescope.core import UserError
from zombiescope.lab._scenario import PREFIX, name_for
from zombiescope.lab._zombies import memory_folder

LONGEST = 120  # seconds: a diagnosis looks for ten
GROUP = "239.255.77.1"  # a multicast address for use within an organisation (RFC 2365)
_PORT, _CHUNK = 7077, 1 << 20
_PATIENCE = 30.0  # seconds to start, or to be gone, on a machine that is starved already
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


@contextmanager
def load(role: str, *argv: str, within: Sequence[str] = (), cgroup: str = "") -> Iterator[int]:
    """A process in a role below, at work when this returns; in a cgroup, or run by a command as `ip netns exec`."""
    command = [*within, sys.executable, "-m", "zombiescope.lab._loads", role, cgroup, *argv]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        said = process.stdout.readline().decode().strip()
        if not said.isdecimal():
            raise UserError(f"the lab could not start its {role}: {said or 'it ended at once'}")
        yield int(said)
    finally:
        process.kill()
        process.communicate()


@contextmanager
def limited(label: str, most: int) -> Iterator[str]:
    """A new memory cgroup with a limit of so many bytes; its folder."""
    folder = os.path.join(memory_folder(), name_for(label))
    os.mkdir(folder)
    try:
        limit(folder, most)
        yield folder
    finally:
        remove(folder)


def limit(folder: str, most: int) -> None:
    unified = os.path.exists(f"{folder}/memory.max")
    with open(f"{folder}/{'memory.max' if unified else 'memory.limit_in_bytes'}", "w") as file:
        file.write(str(most))


def usage(folder: str) -> int:
    unified = os.path.exists(f"{folder}/memory.current")
    with open(f"{folder}/{'memory.current' if unified else 'memory.usage_in_bytes'}") as file:
        return int(file.read())


def subject(folder: str) -> str:
    """As a reading names a cgroup."""
    return "cgroup:" + folder.removeprefix(memory_folder())


def remove(folder: str) -> None:
    """A cgroup whose last process has just been killed can be removed a moment later."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            os.rmdir(folder)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextmanager
def sparse_file(label: str, size: int) -> Iterator[str]:
    """A file of holes: reading it fills the page cache as any file does, and no disk is asked."""
    path = f"/var/tmp/{name_for(label)}"
    try:
        with open(path, "wb") as file:
            file.truncate(size)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _ready() -> None:
    print(os.getpid(), flush=True)


def _stream(path: str) -> None:
    """A file read from its beginning to its end, again and again."""
    file, page = os.open(path, os.O_RDONLY), bytearray(_CHUNK)
    _ready()
    while True:
        os.lseek(file, 0, os.SEEK_SET)
        while os.readv(file, [page]):
            pass


def _wander(path: str, start: str) -> None:
    """Single pages of a file, far apart, as a database reads: each is dropped before it is needed again."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    pages, place = os.fstat(file).st_size // 4096, int(start)
    _ready()
    while True:
        place = (place + 7919) % pages
        os.pread(file, 1, place * 4096)


def _touch(size: str) -> None:
    """Memory that is taken, touched page by page and given back, as by an allocator that keeps nothing."""
    memory = mmap.mmap(-1, int(size))
    with suppress(OSError):  # a kernel without huge pages needs not be told
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    first_bytes = np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE]
    _ready()
    while True:
        first_bytes[:] = 1
        memory.madvise(mmap.MADV_DONTNEED)


def _listen(sockets: str, address: str) -> None:
    """So many sockets that each get a copy of every packet, which nobody reads."""
    kept = []
    for _ in range(int(sockets)):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.bind((GROUP, _PORT))
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(address))
        kept.append(one)
    _ready()
    time.sleep(LONGEST)


def _send(core: str, address: str) -> None:
    """A steady stream of small packets to all who listen, sent from one core: about 25,000 a second."""
    os.sched_setaffinity(0, {int(core)})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        _ready()
        while True:
            for _ in range(25):
                sender.sendto(b"x" * 64, (GROUP, _PORT))
            time.sleep(0.001)


def _loopback(streams: str) -> None:
    """TCP over the loopback as fast as it goes, as iperf3 does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(int(streams)):
            if not os.fork():
                _die_with_parent()
                _sender(server.getsockname())
            taken, _address = server.accept()
            if not os.fork():
                _die_with_parent()
                _receiver(taken)
            taken.close()
    _ready()
    time.sleep(LONGEST)


def _sender(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        page = bytes(1 << 17)
        while True:
            connection.sendall(page)


def _receiver(connection: socket.socket) -> None:
    page = bytearray(1 << 17)
    while connection.recv_into(page):
        pass
    os._exit(0)


_ROLES: dict[str, Callable[..., None]] = {
    "stream": _stream,
    "wander": _wander,
    "touch": _touch,
    "listen": _listen,
    "send": _send,
    "loopback": _loopback,
}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.alarm(LONGEST)


def _main(role: str, cgroup: str, *argv: str) -> None:
    _die_with_parent()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, f"{PREFIX}{role}".encode(), 0, 0, 0)
    if cgroup:
        with open(f"{cgroup}/cgroup.procs", "w") as procs:
            procs.write("0")
    _ROLES[role](*argv)


if __name__ == "__main__":
    _main(*sys.argv[1:])
