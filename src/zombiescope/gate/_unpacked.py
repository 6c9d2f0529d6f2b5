"""A root that comes as a tar: the files that rules read, unpacked into a temporary folder.

The tar may be hostile, so it is read forwards, once, with every size bounded. Only files that a rule could ask for are
written; their paths are computed here, never taken from the tar. Links are made last, where no folder is, so nothing is
ever written through one, and none is followed here. A device or FIFO becomes an empty folder: reading it fails as not a
file.
"""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from tempfile import TemporaryDirectory
from typing import IO

from zombiescope.audit.activation import BUS_NAMES, RULES
from zombiescope.audit.packages import DPKG, RPM
from zombiescope.core import UserError, amount
from zombiescope.core.host import MOST_BYTES as MOST_READ
from zombiescope.core.host import why
from zombiescope.gate._command_line import FOLDERS
from zombiescope.knowledge.agents import agents
from zombiescope.places.packed import DAMAGED, plain
from zombiescope.processes.opening import regular

MOST_MEMBERS = 5_000_000  # of one tar: the largest machine images have about a million files
MOST_BYTES = 1 << 37  # of all members, 137 GB; read past, never written
MOST_KEPT = 1 << 30  # bytes written: unit files, package lists and configuration have some 50 MB, an rpm database 200
MOST_FILE = 1 << 28  # bytes of one file; a larger one is reported as too large to read
MOST_HEADER = 1 << 20  # bytes of all headers of one file: long names, attributes, sparse maps
DEEPEST = 32  # folders; no path that we read is half as deep
# What rules read, besides the paths of signs of use; of _NAMES only the names are needed.
_PLACES = (
    *(
        "etc",
        "boot/grub",
        "boot/grub2",
        "boot/extlinux",
        "boot/extlinux.conf",
        "boot/syslinux",
        "extlinux",
        "run/systemd",
    ),
    *("boot/efi/EFI/BOOT", "usr/lib/kernel", *(folder.lstrip("/") for folder in FOLDERS)),
    *("usr/lib/os-release", "usr/lib/systemd", "usr/local/lib/systemd", "lib/systemd"),
    *(place.lstrip("/") for place in (DPKG, *RPM, *RULES, *BUS_NAMES)),
)
_NAMES = ("boot", "usr/lib/modules", "lib/modules")
_BROKEN = (tarfile.TarError, *DAMAGED, OverflowError, RecursionError)


@contextmanager
def root_folder(path: str) -> Iterator[str]:
    """The root folder: the one given, or a temporary one that the tar was unpacked into."""
    if os.path.isdir(path):
        yield path
        return
    if not os.path.isfile(path):
        raise UserError(f"{path}: {'not a folder or a tar file' if os.path.exists(path) else 'no such file or folder'}")
    with TemporaryDirectory(prefix="zombiescope-gate-") as folder:
        try:
            with open(regular(path), "rb") as file:
                _unpack(plain(file), folder)
        except OSError as error:
            raise UserError(f"{path}: {why(error)}") from error
        except _BROKEN as error:
            raise UserError(f"{path}: not a readable tar: {error}") from error
        yield folder


class _Forwards(io.RawIOBase):
    """A stream that is only read forwards; what it returns, rather than skips, is limited."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._at = stream, 0
        self.ration = MOST_HEADER
        self.latest = b""  # what the last read returned

    def read(self, size: int = -1) -> bytes:
        self.ration -= max(size, 0)
        if size < 0 or self.ration < 0:
            raise tarfile.ReadError(f"a header of more than {amount(MOST_HEADER)}")
        self.latest = self._taken(size)
        return self.latest

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or place < self._at:
            raise tarfile.ReadError("not in order")
        while self._at < place and self._taken(min(place - self._at, MOST_HEADER)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def _taken(self, size: int) -> bytes:
        part = self._stream.read(size)
        self._at += len(part)
        return part


def _unpack(stream: IO[bytes], folder: str) -> None:
    symbolic: dict[str, str] = {}
    hard: dict[str, str] = {}
    number = kept = passed = 0
    wanted = _Wanted()
    forwards = _Forwards(stream)
    with tarfile.open(fileobj=forwards, mode="r:") as tar:
        while (member := tar.next()) is not None:
            tar.members = []  # type: ignore[attr-defined]  # it would remember every one
            number, passed, forwards.ration = number + 1, passed + max(member.size, 0), MOST_HEADER
            if number > MOST_MEMBERS or passed > MOST_BYTES:
                raise tarfile.ReadError(f"more than {MOST_MEMBERS:,} members, or {amount(MOST_BYTES)}")
            place = _place(member.name)
            if not place:
                continue
            if not wanted.content_of(place):
                if named := wanted.name_of(place):
                    _named(os.path.join(folder, named), is_file=named == place and member.isreg())
                continue
            target = os.path.join(folder, place)
            for links in (symbolic, hard):  # of two with the same name the last counts, as when tar unpacks it
                links.pop(place, None)
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(target)
            if member.issym():
                symbolic[place] = member.linkname
            elif member.islnk():
                hard[place] = member.linkname
            elif member.isreg():
                forwards.ration += member.size
                kept += member.size if member.size <= MOST_FILE else 0
                if kept > MOST_KEPT:
                    raise tarfile.ReadError(f"more than {amount(MOST_KEPT)} of configuration")
                _write(tar, member, target)
            else:
                os.makedirs(target, exist_ok=True)
    # Python's reader takes an invalid header for the end. What comes after it was not read.
    if forwards.latest != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError("it is damaged or cut short: the end-of-archive mark is missing")
    _link(folder, hard, symbolic)


def _link(folder: str, hard: dict[str, str], symbolic: dict[str, str]) -> None:
    # The target of a hard link is a file of this tar or nothing; no symbolic link exists yet that could lead elsewhere.
    for place, named in hard.items():
        source, target = os.path.join(folder, _place(named) or ""), os.path.join(folder, place)
        if os.path.isfile(source) and not os.path.exists(target):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.link(source, target)
    for place in symbolic:  # every parent folder exists before the first link is made
        os.makedirs(os.path.join(folder, os.path.dirname(place)), exist_ok=True)
    for place, named in symbolic.items():
        with suppress(FileExistsError):
            os.symlink(named, os.path.join(folder, place))


def _named(target: str, *, is_file: bool) -> None:
    """Something of which only the name is needed: an empty file, or a folder."""
    os.makedirs(os.path.dirname(target) if is_file else target, exist_ok=True)
    if is_file:
        with suppress(FileExistsError), open(target, "xb"):
            pass


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "xb") as out:
        if member.mode & stat.S_IXUSR:  # systemd starts a SysV script only if it is a program; nothing here is run
            os.fchmod(out.fileno(), stat.S_IRWXU)
        content = tar.extractfile(member)
        if member.size > MOST_FILE or content is None:
            out.truncate(MOST_READ + 1)  # reading it fails as too large
            return
        shutil.copyfileobj(content, out)


def _place(name: str) -> str | None:
    """The path of a member below the root, as if the root were "/"; None for a path that we would not read."""
    place = posixpath.normpath("/" + name).lstrip("/")
    too_long = len(os.fsencode(place)) > 1024 or any(len(os.fsencode(part)) > 255 for part in place.split("/"))
    return None if not place or too_long or place.count("/") > DEEPEST or "\0" in place else place


class _Wanted:
    """What the rules may read: the content of some files, and only the names in some folders."""

    def __init__(self) -> None:
        signs = [sign for agent in agents() for sign in agent.use if sign.path]
        self._files = {*_PLACES, *(it.path.lstrip("/") for it in signs if it.kind != "folder_filled")}
        self._names = {*_NAMES, *(it.path.lstrip("/") for it in signs if it.kind == "folder_filled")}
        self._ways = {above for it in self._files | self._names for above in _above(it)[:-1]}

    def content_of(self, place: str) -> bool:
        """Whether it is read, or is a folder or link on the way to something that is."""
        return place in self._ways or not self._files.isdisjoint(_above(place))

    def name_of(self, place: str) -> str:
        """The entry of a names-only folder that it is, or is inside of; "" if none."""
        pairs = pairwise(_above(place))
        return next((entry for folder, entry in pairs if folder in self._names and entry not in self._ways), "")


def _above(place: str) -> list[str]:
    """The path and all above it, the topmost first."""
    return list(accumulate(place.split("/"), posixpath.join))
