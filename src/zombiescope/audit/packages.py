"""Which package installed a file, and whether it was changed since: read from dpkg's and rpm's own databases.

dpkg keeps a list of files for each package (/var/lib/dpkg/info/NAME.list) and their checksums (.md5sums); all lists
are read once for all files in question. rpm keeps an SQLite database since 4.16, opened read-only and immutable, so
that nothing is locked or written; its index by base name leads to the package's header. Older rpm
databases (Berkeley DB, ndb) are not read.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zombiescope.core import Host, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.host import why

if TYPE_CHECKING:
    import sqlite3

DPKG = "/var/lib/dpkg/info"
RPM = ("/usr/lib/sysimage/rpm", "/usr/share/rpm", "/var/lib/rpm")  # the second is that of ostree and bootc
MOST_LISTS = 20_000  # packages of one machine; a large desktop has 5,000
MOST_ROWS = 1_000  # files of one base name in an rpm database
_OLD_RPM = {"Packages": "Berkeley DB", "Packages.db": "ndb"}
# Tags and types of a header: include/rpm/rpmtag.h.
_NAME, _VERSION, _RELEASE, _INDEXES, _BASENAMES, _FOLDERS = 1000, 1001, 1002, 1116, 1117, 1118
_INT32, _STRING, _STRINGS = 4, 6, 8
_MERGED = ("/usr/lib/", "/usr/bin/", "/usr/sbin/", "/usr/lib64/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    package: str
    changed: bool | None = None  # since it was installed; None if the database does not say
    source: str


def owners(host: Host, paths: Iterable[str]) -> dict[str, Owner]:
    """The package of each file; files of no package are left out. Raises Unreadable if there is no database."""
    wanted = {_unmerged(path): path for path in paths}
    try:
        return dict(_dpkg(host, wanted))
    except Unreadable as no_dpkg:
        database = _rpm_database(host, no_dpkg)
    return dict(_rpm(database, wanted))


def _dpkg(host: Host, wanted: dict[str, str]) -> Iterator[tuple[str, Owner]]:
    names = {os.fsencode(name): name for name in wanted}
    for file in [name for name in host.listing(DPKG, most=4 * MOST_LISTS) if name.endswith(".list")][:MOST_LISTS]:
        source = f"{DPKG}/{file}"
        try:
            listed = host.read_bytes(source)
        except Unreadable:
            continue
        # A list may have either spelling of a folder that was merged into /usr.
        found = {names[it] for line in listed.split(b"\n") if (it := _unmerged_bytes(line)) in names}
        if found:
            sums = _sums(host, file.removesuffix(".list"))
            for name in found:
                package = file.removesuffix(".list").partition(":")[0]
                changed = _changed(host, wanted[name], sums.get(name))
                yield wanted[name], Owner(package=package, changed=changed, source=source)


def _sums(host: Host, package: str) -> dict[str, str]:
    try:
        text = host.read(f"{DPKG}/{package}.md5sums")
    except Unreadable:
        return {}
    rows = (line.partition("  ") for line in text.split("\n"))
    return {_unmerged(f"/{path}"): digest for digest, _, path in rows if path}


def _changed(host: Host, path: str, digest: str | None) -> bool | None:
    if digest is None:
        return None
    import hashlib  # loads OpenSSL, 3.5 MB, and the recorder imports this file

    try:
        return hashlib.md5(host.read_bytes(path), usedforsecurity=False).hexdigest() != digest
    except Unreadable:
        return None


def _rpm_database(host: Host, no_dpkg: Unreadable) -> str:
    for folder in RPM:
        try:
            names = host.listing(folder)
        except Unreadable:
            continue
        if "rpmdb.sqlite" in names:
            return _regular(host, f"{folder}/rpmdb.sqlite")
        for name, kind in _OLD_RPM.items():
            if name in names:
                raise Unreadable(
                    f"{folder}/{name}", f"an rpm database in the old {kind} format, which we do not read; use rpm -qf"
                )
    raise Unreadable(no_dpkg.source, "neither a dpkg nor an rpm database here")


def _regular(host: Host, path: str) -> str:
    """The path as this machine opens it, if it is a regular file: SQLite would wait for a FIFO, and act on a device."""
    real = host.real(path)
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise Unreadable(path, "not a regular file")
    except OSError as error:
        raise Unreadable(path, why(error)) from error
    return real


def _rpm(database: str, wanted: dict[str, str]) -> Iterator[tuple[str, Owner]]:
    import sqlite3

    try:
        connection = sqlite3.connect(f"file:{_quoted(database)}?mode=ro&immutable=1", uri=True)
        try:
            for name, path in wanted.items():
                for number, place in _named(connection, os.path.basename(name)):
                    if (package := _package(connection, number, place, name)) is not None:
                        yield path, Owner(package=package, source=shown_by("rpm", "-qf", path))
                        break
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, struct.error) as error:
        raise Unreadable(database, f"not an rpm database: {error}") from error


def _named(connection: sqlite3.Connection, base: str) -> list[tuple[int, int]]:
    question = "SELECT hnum, idx FROM Basenames WHERE key = ? LIMIT ?"
    return connection.execute(question, (base, MOST_ROWS)).fetchall()


def _package(connection: sqlite3.Connection, number: int, place: int, name: str) -> str | None:
    """The package with this header, if the file at that index is the one in question."""
    row = connection.execute("SELECT blob FROM Packages WHERE hnum = ?", (number,)).fetchone()
    if row is None:
        return None
    words, numbers = header(row[0])
    bases, folders, indexes = words.get(_BASENAMES, []), words.get(_FOLDERS, []), numbers.get(_INDEXES, [])
    if not 0 <= place < min(len(bases), len(indexes)) or indexes[place] >= len(folders):
        return None
    if _unmerged(f"{folders[indexes[place]]}{bases[place]}") != name:
        return None
    return "-".join(words[tag][0] for tag in (_NAME, _VERSION, _RELEASE) if words.get(tag))


def header(blob: bytes) -> tuple[dict[int, list[str]], dict[int, list[int]]]:
    """Words and numbers of an rpm header, by tag.

    How many entries, how much data, the entries (tag, type, offset, count), the data; all big-endian.
    """
    entries, size = struct.unpack_from(">II", blob)
    start = 8 + 16 * entries
    if start + size > len(blob):
        raise ValueError("the header is cut short")
    data = blob[start : start + size]
    words: dict[int, list[str]] = {}
    numbers: dict[int, list[int]] = {}
    for entry in range(entries):
        tag, kind, offset, times = struct.unpack_from(">IIII", blob, 8 + 16 * entry)
        if kind == _INT32 and offset + 4 * times <= size:
            numbers[tag] = list(struct.unpack_from(f">{times}I", data, offset))
        elif kind in (_STRING, _STRINGS) and offset <= size and times <= size:
            words[tag] = [os.fsdecode(it) for it in data[offset:].split(b"\0", times)[:times]]
    return words, numbers


def _unmerged(path: str) -> str:
    """/usr/lib/x and /lib/x are one file on today's systems; packages may list either."""
    return path.removeprefix("/usr") if path.startswith(_MERGED) else path


def _unmerged_bytes(path: bytes) -> bytes:
    return path.removeprefix(b"/usr") if path.startswith(tuple(map(os.fsencode, _MERGED))) else path


def _quoted(path: str) -> str:
    """Escaped for a URI; sqlite would take a question mark for the start of options."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
