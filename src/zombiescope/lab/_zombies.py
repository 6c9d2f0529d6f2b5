"""Real dying cgroups, as many as asked for, always released again.

Each is made as in production: a process joins a new memory cgroup, one page that outlives it is charged to it, the
process leaves, the folder is removed. The page is in tmpfs, so only unlinking the file frees it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from zombiescope.core import Host, UserError
from zombiescope.kernel.lru_drain import drain
from zombiescope.kernel.mounts import cgroup_mounts
from zombiescope.lab._cgroups import remove
from zombiescope.lab._scenario import name_for
from zombiescope.places.own_python import FOLDER, environment, own_python

TMPFS = "/dev/shm"
_PAGE = 4096  # one byte is written to each page; where pages are larger, fewer are held, which does no harm


@dataclass(slots=True)
class Leak:
    """A parent with dying children, and the tmpfs file whose pages pin them."""

    parent: str
    file: str
    names: list[str] = field(default_factory=list)

    def free(self) -> None:
        """Unlink the file that pins them; the kernel's workers release them soon after."""
        with suppress(FileNotFoundError):
            os.unlink(self.file)
        drain()  # a page in a core's LRU batch stays allocated, and pins its cgroup


def memory_folder() -> str:
    """Where new memory cgroups can be made: the v1 memory hierarchy, else v2 if the controller is enabled."""
    mounts = cgroup_mounts(Host())
    for mount in mounts:
        if "memory" in mount.controllers:
            return mount.path
    for mount in mounts:
        if mount.version == 2:
            with open(f"{mount.path}/cgroup.subtree_control") as enabled:
                if "memory" in enabled.read().split():
                    return mount.path
    raise UserError("cannot make a memory cgroup here: the controller is neither mounted as v1 nor enabled in v2")


@contextmanager
def leaked(
    count: int, *, label: str = "lab", name: str = "z{}", folder: str = TMPFS, nested: int = 1
) -> Iterator[Leak]:
    """`count` dying memory cgroups under one parent, called `name` with a number put in; all are released at the end.

    With a `folder` on a disk they are pinned by page cache, as by logs, and released when it is dropped. With `nested`
    each is a chain of that many, like pod and container: one page pins the whole chain.
    """
    parent = os.path.join(memory_folder(), name_for(label))
    leak = Leak(parent, os.path.join(folder, os.path.basename(parent)), [name.format(n) for n in range(count)])
    os.mkdir(parent)
    try:
        # In a separate process: what it allocates is charged to the cgroups it passes through.
        work = own_python("zombiescope.lab._zombies", parent, os.path.abspath(leak.file), str(nested))
        names = "\0".join(leak.names).encode(errors="surrogateescape")
        subprocess.run(work, input=names, check=True, cwd=FOLDER, env=environment())
        yield leak
    finally:
        leak.free()
        remove(parent)


def _make(parent: bytes, file: bytes, names: list[bytes], nested: int) -> None:
    home = os.open(_home(parent), os.O_WRONLY)
    pages = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    for place, name in enumerate(names):
        chain = [parent + b"/" + name + b"/in" * depth for depth in range(nested)]
        for above, folder in zip([b"", *chain], chain, strict=False):
            with suppress(OSError):  # v1 has no such file
                _write(above + b"/cgroup.subtree_control", b"+memory")
            os.mkdir(folder)
        _write(chain[-1] + b"/cgroup.procs", b"0")
        os.pwrite(pages, b"z", place * _PAGE)
        os.write(home, b"0")
        for folder in reversed(chain):
            os.rmdir(folder)


def _write(path: bytes, text: bytes) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text)
    finally:
        os.close(handle)


def _home(parent: bytes) -> bytes:
    """The cgroup this process is in now, to return to between two new ones."""
    with open("/proc/self/cgroup", "rb") as lines:
        places = {line.split(b":", 2)[1]: line.split(b":", 2)[2].strip() for line in lines}
    v1 = next((path for controllers, path in places.items() if b"memory" in controllers.split(b",")), None)
    return os.path.dirname(parent) + (v1 if v1 is not None else places[b""]) + b"/cgroup.procs"


if __name__ == "__main__":
    given = sys.stdin.buffer.read().split(b"\0")
    _make(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), given, int(sys.argv[3]))
