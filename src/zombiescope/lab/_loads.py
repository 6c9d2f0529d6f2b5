"""Processes of the memory and network scenarios, one kind of work each, and the files and cgroups they use."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

import numpy as np

from zombiescope.lab._cgroups import remove
from zombiescope.lab._scenario import name_for
from zombiescope.lab._worker import LONGEST, die_with_parent, play, ready, worker
from zombiescope.lab._zombies import memory_folder
from zombiescope.places.own_python import environment

GROUP = "239.255.77.1"  # a multicast address for use within an organisation (RFC 2365)
_PORT, _CHUNK = 7077, 1 << 20
_FILES = 40  # C sources
_FUNCTION = 'int f{0}(int x, char *s) {{ char b[64]; snprintf(b, 64, "%d%s", x, s); return strlen(b) * x + {0}; }}\n'
# All files in turn, two at a time, forever; make is not needed.
_BUILD = "while :; do printf '%s\\n' *.c | xargs -P 2 -I{} gcc -O2 -c {} -o {}.o; done"


def load(role: str, *argv: str, within: Sequence[str] = (), cgroup: str = "") -> AbstractContextManager[int]:
    """A process in one of the roles below, already working on entry; in a cgroup, or run by a command."""
    return worker(__name__, role, cgroup, *argv, within=within)


@contextmanager
def limited(label: str, most: int) -> Iterator[str]:
    """Make a memory cgroup with a limit in bytes; returns its folder."""
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
    """The cgroup as readings name it."""
    return "cgroup:" + folder.removeprefix(memory_folder())


@contextmanager
def sparse_file(label: str, size: int) -> Iterator[str]:
    """A sparse file: reading it fills the page cache without any disk IO."""
    path = f"/var/tmp/{name_for(label)}"
    try:
        with open(path, "wb") as file:
            file.truncate(size)
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


@contextmanager
def compiling(scale: float) -> Iterator[int]:
    """A real compiler builds this many generated C files over and over, two at a time."""
    functions = "".join(_FUNCTION.format(number) for number in range(max(1, round(40 * scale))))
    with tempfile.TemporaryDirectory(prefix=f"{name_for('compile')}-", ignore_cleanup_errors=True) as folder:
        for number in range(_FILES):
            with open(os.path.join(folder, f"{number}.c"), "w") as source:
                source.write(f"#include <stdio.h>\n#include <string.h>\n{functions}")
        build = subprocess.Popen(
            ["sh", "-c", _BUILD],
            cwd=folder,
            env={**environment(), "TMPDIR": folder},  # so that leftovers of a killed compiler are removed too
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            yield _FILES
        finally:
            os.killpg(build.pid, signal.SIGKILL)
            build.wait()


def _stream(path: str) -> None:
    """Read a file from start to end, over and over."""
    file, page = os.open(path, os.O_RDONLY), bytearray(_CHUNK)
    ready()
    while True:
        os.lseek(file, 0, os.SEEK_SET)
        while os.readv(file, [page]):
            pass


def _wander(path: str, start: str) -> None:
    """Read single pages of a file, far apart, as a database does: each is dropped before it is needed again."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    pages, place = os.fstat(file).st_size // 4096, int(start)
    ready()
    while True:
        place = (place + 7919) % pages
        os.pread(file, 1, place * 4096)


def _job(share: str) -> None:
    """Compute for a share of each tenth of a second, as a job that goes on whatever is fixed beside it."""
    ready()
    while True:
        until = time.monotonic() + 0.1 * float(share)
        while time.monotonic() < until:
            sum(range(1_000))
        time.sleep(0.1 * (1 - float(share)))


def _touch(size: str) -> None:
    """Allocate memory, touch each page and free it, as an allocator that caches nothing does."""
    memory = mmap.mmap(-1, int(size))
    with suppress(OSError):  # a kernel without huge pages refuses, which is fine
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    first_bytes = np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE]
    ready()
    while True:
        first_bytes[:] = 1
        memory.madvise(mmap.MADV_DONTNEED)


def _listen(sockets: str, address: str) -> None:
    """This many sockets that each get a copy of every packet; nothing reads them."""
    kept = []
    for _ in range(int(sockets)):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.bind((GROUP, _PORT))
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(GROUP) + socket.inet_aton(address))
        kept.append(one)
    ready()
    time.sleep(LONGEST)


def _send(core: str, address: str) -> None:
    """A steady stream of small multicast packets, sent from one core: about 25,000 a second."""
    os.sched_setaffinity(0, {int(core)})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        ready()
        while True:
            for _ in range(25):
                sender.sendto(b"x" * 64, (GROUP, _PORT))
            time.sleep(0.001)


def _loopback(streams: str) -> None:
    """TCP over the loopback at full speed, as iperf3 does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(int(streams)):
            if not os.fork():
                die_with_parent()
                _sender(server.getsockname())
            taken, _address = server.accept()
            if not os.fork():
                die_with_parent()
                _receiver(taken)
            taken.close()
    ready()
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
    "job": _job,
}


def _within(cgroup: str, role: Callable[..., None], *argv: str) -> None:
    if cgroup:
        with open(f"{cgroup}/cgroup.procs", "w") as procs:
            procs.write("0")
    role(*argv)


if __name__ == "__main__":
    play({name: lambda cgroup, *argv, role=role: _within(cgroup, role, *argv) for name, role in _ROLES.items()})
