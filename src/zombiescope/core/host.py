"""The one door to the machine: read, folders, run, act. Live at "/", or any folder that holds a recorded root.

A recorded root is a copy of the files we read (`proc/…`, `sys/…`), the output of commands (`cmd/…`) and the time
they were taken (`at`, unix seconds). It may come from anywhere, so nothing in it can lead out of it, hang us or
fill our memory. Every failure is `Unreadable` with the path as the machine names it; no caller sees `OSError`.
"""

from __future__ import annotations

import functools
import math
import os
import re
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from zombiescope.core.errors import Unreadable
from zombiescope.places.in_root import resolved
from zombiescope.places.own_python import FOLDER, environment
from zombiescope.processes.opening import folder_inside, names, regular, regular_inside

MOST_BYTES = 16 << 20  # no file we read is near this; a hostile one, or a mount table gone mad, might be
MOST_FOLDERS = 200_000  # at about 3 µs each this is 0.6 s, the most a count may ever cost
MOST_NAMES = 20_000  # in one folder: 5 ms, and 6 MB if each has the longest name that there can be
MOST_PROCESSES = 200_000  # their names are short: 12 MB; a busy node has some thousand
KERNELS = ("/proc/", "/sys/")  # what only the kernel puts there: nothing acts or waits when it is opened
CHUNK = 1 << 16  # procfs hands out whole files in one read when the buffer is large enough


class Host:
    """A machine, seen through one root."""

    def __init__(self, root: str = "/", *, live: bool | None = None, enter: Sequence[str] = ()) -> None:
        """`enter` comes before every command: it leads into the namespaces of a system whose root is /proc/PID/root."""
        # Such a root is a link of the kernel's making: it can be opened, but to resolve it leads back to our own.
        self._foreign = re.fullmatch(r"/proc/\d+/root", root) is not None
        self.root = root if self._foreign else os.path.realpath(root)
        self.live = self.root == "/" if live is None else live
        self.enter = tuple(enter)
        self.bpf = True  # whether probes may attach programs to its kernel
        self.apart: frozenset[str] = frozenset()  # namespaces (net, cgroup …) in which we are not where the node is

    def now(self) -> float:
        """The time of a look: the clock, or when the recorded root was taken."""
        return time.time() if self.live else self._taken

    @functools.cached_property
    def _taken(self) -> float:
        """The note in `at`; a plain copy without one is as old as its folder says."""
        try:
            at = float(self.read("/at", most=100))
            if math.isfinite(at):
                return at
        except (Unreadable, ValueError):
            pass
        return os.stat(self.root).st_mtime if os.path.isdir(self.root) else 0.0

    def read(self, path: str, *, most: int = MOST_BYTES) -> str:
        """The whole file as text. Bytes that are not UTF-8 are kept (surrogateescape), never lost."""
        return self.read_bytes(path, most=most).decode("utf-8", "surrogateescape")

    def read_bytes(self, path: str, *, most: int = MOST_BYTES) -> bytes:
        handle = self.opened(path)
        try:
            parts, size = [], 0
            while part := os.read(handle, CHUNK):
                parts.append(part)
                size += len(part)
                if size > most:
                    raise Unreadable(path, f"larger than {most:,} bytes")
            return b"".join(parts)
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error
        finally:
            os.close(handle)

    def opened(self, path: str) -> int:
        """A regular file, open for reading; to be closed. A FIFO would never end, and a device may act when it is
        opened (a watchdog begins to count): neither is."""
        try:
            if self._is_kernels(path):
                return os.open(self.real(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            return regular(self.real(path)) if self.root == "/" else self._inside(regular_inside, path)
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error

    def read_short(self, path: str) -> bytes:
        """A file that fits into one read, such as /proc/PID/stat, at the least cost: there are many of them."""
        if not self.live or not self._is_kernels(path):
            return self.read_bytes(path)
        try:
            handle = os.open(self.real(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.read(handle, 4096)
            finally:
                os.close(handle)
        except OSError as error:
            raise Unreadable(path, why(error)) from error

    def link(self, path: str) -> str:
        """What a symbolic link says, unresolved."""
        try:
            return os.readlink(self.real(path, follow=False))
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error

    def status(self, path: str, *, follow: bool = False) -> os.stat_result | None:
        """What stands at a path, a link not followed unless asked for; None if nothing does."""
        try:
            own = follow and (self.root == "/" or self._is_kernels(path))
            return os.stat(self.real(path)) if own else os.lstat(self.real(path, follow=follow))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error

    def listing(self, path: str, *, most: int = MOST_NAMES) -> list[str]:
        """The names in a folder, sorted; Unreadable if it has more than `most`: whoever fills it chooses how many."""
        found, more = self.first_names(path, most)
        if more:
            raise Unreadable(path, f"more than {most:,} names in it")
        return found

    def first_names(self, path: str, most: int) -> tuple[list[str], bool]:
        """The first `most` names of a folder as it lies on the disk, sorted; and whether there are more."""
        try:
            if self.root == "/" or self._is_kernels(path):
                found, more = names(self.real(path), most)
            else:
                folder = self._inside(folder_inside, path)
                try:
                    found, more = names(folder, most)
                finally:
                    os.close(folder)
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error
        return sorted(found), more

    def check_folder(self, path: str) -> None:
        """Unreadable if it cannot be listed: that is not the same as an empty one."""
        self.first_names(path, 0)

    def pids(self) -> list[str]:
        """The processes by their numbers, sorted as words."""
        return [name for name in self.listing("/proc", most=MOST_PROCESSES) if name.isascii() and name.isdecimal()]

    def folders(self, path: str, *, most: int = MOST_FOLDERS) -> int:
        """How many folders stand at and below `path`, links not followed."""
        try:
            top = os.lstat(self.real(path))
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error
        if not stat.S_ISDIR(top.st_mode):
            raise Unreadable(path, "not a folder")
        return 1 if top.st_nlink == 2 else 1 + sum(1 for _ in self._folders_below(path, most - 1))

    def tree(self, path: str, *, most: int = 10_000) -> dict[str, int]:
        """Every folder below `path` by its path from there ("/a/b"), with its inode; links not followed."""
        top = self.real(path)
        return {child.removeprefix(top): inode for child, inode in self._folders_below(path, most)}

    def _folders_below(self, path: str, most: int) -> Iterator[tuple[str, int]]:
        """A folder's link count is two and one for each folder in it (cgroupfs keeps it so: kernfs counts `subdirs`),
        so leaves, which are most of the tree and hold some fifty files each, are never opened. A file system that
        does not count (btrfs and overlayfs say 1) is walked in full."""
        unopened, count = [self.real(path)], 0
        try:
            while unopened:
                for child, links, inode in _folders_in(unopened.pop()):
                    yield child, inode
                    count += 1
                    if count > most:
                        raise Unreadable(path, f"more than {most:,} folders")
                    if links != 2:
                        unopened.append(child)
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error

    def run(self, *argv: str, timeout: float = 10.0) -> str:
        """What a command prints. A recorded root has it as the file `cmd/<argv joined by _>`."""
        if not self.live:
            return self.read("/cmd/" + "_".join(argv).replace("/", "%"))
        return self._command((*self.enter, *argv), timeout)

    def act(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 60.0) -> str:
        """Change the machine. Only `treatment/` calls this; a recorded root cannot be changed."""
        if not self.live:
            raise Unreadable("$ " + " ".join(argv), "a recorded root cannot be acted on")
        return self._command((*self.enter, *argv), timeout, stdin)

    @staticmethod
    def _command(argv: Sequence[str], timeout: float, stdin: bytes = b"") -> str:
        shown = "$ " + " ".join(argv)
        try:
            done = subprocess.run(
                argv, capture_output=True, timeout=timeout, check=False, input=stdin, cwd=FOLDER, env=environment()
            )
        except subprocess.TimeoutExpired as error:
            raise Unreadable(shown, f"no answer in {timeout:g} s") from error
        except (OSError, ValueError) as error:
            raise Unreadable(shown, why(error)) from error
        if done.returncode:
            said = done.stderr.decode("utf-8", "surrogateescape").strip().splitlines()[-1:]
            raise Unreadable(shown, f"exit code {done.returncode}" + (f": {said[0]}" if said else ""))
        return done.stdout.decode("utf-8", "surrogateescape")

    def real(self, path: str, *, follow: bool = True) -> str:
        """The path as this process opens it. Below another root a link is resolved in that root, never in ours."""
        if self.root == "/" or self._foreign:
            return path if self.root == "/" and path[:1] == "/" else os.path.join(self.root, path.lstrip("/"))
        return self._below(path, follow)

    def _is_kernels(self, path: str) -> bool:
        return self.root == "/" and of_kernel(path)

    def _inside(self, way: Callable[..., int], path: str) -> int:
        """A file or folder of another root, opened."""
        try:
            return way(self.root, path)
        except FileNotFoundError:
            if self._foreign:
                raise
            # It may lead out of the root, which is said then. A copy may lack a folder that a link only passes (x/..).
            return way(self.root, self.real(path).removeprefix(self.root), links=False)

    def _below(self, path: str, follow: bool) -> str:
        try:
            real, out = resolved(self.root, path, follow=follow)
            if out and not self.live and not os.path.lexists(real):
                raise Unreadable(path, "leads out of the recorded root")  # the copy may lack it: it is not absent
        except (OSError, ValueError) as error:
            raise Unreadable(path, why(error)) from error
        return real


def _folders_in(folder: str) -> Iterator[tuple[str, int, int]]:
    """The folders in a folder with their link counts and inodes; what vanishes while we look was not there."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):  # False for what is gone; each cgroup has fifty files
                with suppress(FileNotFoundError):
                    yield entry.path, entry.stat(follow_symlinks=False).st_nlink, entry.inode()


def of_kernel(path: str) -> bool:
    return f"{os.path.normpath(path) if '/..' in path else path}/".startswith(KERNELS)


def why(error: OSError | ValueError) -> str:  # ValueError: a name that no file can have (a NUL, a lone surrogate)
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
