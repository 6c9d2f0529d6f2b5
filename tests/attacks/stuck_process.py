"""A process whose memory map is locked for as long as a file system in a program does not answer: a real one.

A thread reads a page of the file, and waits with that page locked. Another maps the same file for direct I/O; for that
the kernel drops the file's pages, so it waits for the first one, holding the lock of the process's memory map for
writing. Whoever reads /proc/PID/maps, map_files, cmdline or environ waits behind it.

python -m tests.attacks.stuck_process MOUNTPOINT serves the file `silent` there, and answers no read of it.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
DIRECT_IO, KEEP_CACHE = 1, 2  # what a server says of a file that it opens
PROGRAM = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
static const char *path;
static char *place;
static void *reads(void *_) { char c; read(open(path, O_RDONLY), &c, 1); return 0; }
static void *maps(void *_) {
  mmap(place + 4096, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, open(path, O_RDONLY), 0);
  return 0;
}
int main(int count, char **words) {
  pthread_t reader, mapper;
  path = words[1];
  place = mmap(0, 3 * 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_create(&reader, 0, reads, 0);
  usleep(300000);
  pthread_create(&mapper, 0, maps, 0);
  usleep(300000);
  printf("%lx\\n", (unsigned long)main); fflush(stdout);
  for (volatile unsigned long n = 0;; n++);
}
"""


@contextmanager
def stuck(folder: Path, name: str = "stuck") -> Iterator[int]:
    """The pid of one."""
    with all_stuck(folder, name) as (pid,):
        yield pid


@contextmanager
def all_stuck(folder: Path, name: str = "stuck", many: int = 1) -> Iterator[list[int]]:
    """Some such processes, which are busy beside. At the end their file system is aborted, and they are released."""
    import pytest
    from tests.conftest import CANNOT
    from tests.naming.programs import compiled, needs_root, running

    needs_root()
    if not os.path.exists("/dev/fuse"):
        pytest.skip(CANNOT + "mount FUSE")
    program, at = compiled(PROGRAM, folder / name, "-pthread"), folder / "mounted"
    at.mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.attacks.stuck_process", str(at)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    try:
        assert server.stdout is not None
        if (said := server.stdout.readline().strip()) != "mounted":
            pytest.skip(CANNOT + f"mount FUSE: {said}")
        with ExitStack() as processes:
            try:
                yield [processes.enter_context(running(program, at / "silent"))[0].pid for _ in range(many)]
            finally:
                server.kill()
    finally:
        server.kill()
        server.communicate()
        subprocess.run(["umount", "-l", str(at)], check=False)


def serve(at: str) -> None:
    """The first open is for the page cache, all others for direct I/O; a read is never answered."""
    from tests.naming import fuse_daemon

    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if ctypes.CDLL(None, use_errno=True).mount(b"test", at.encode(), b"fuse", 0, options):
        print(os.strerror(ctypes.get_errno()), flush=True)
        return
    print("mounted", flush=True)
    opened = 0
    while True:
        raw = os.read(device, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("=IIQQ", raw)
        if opcode in (*fuse_daemon.SILENT, fuse_daemon.READ):
            continue
        said = fuse_daemon.answer(opcode, node, raw[40:], b"silent", bytes(8192))
        if opcode == fuse_daemon.OPEN:
            said = struct.pack("=Q2I", 0, DIRECT_IO | KEEP_CACHE if opened else 0, 0)
            opened += 1
        body, error = (said, 0) if isinstance(said, bytes) else (b"", said)
        os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)


if __name__ == "__main__":
    serve(sys.argv[1])
