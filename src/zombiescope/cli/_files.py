"""Files of samples, recognised by their content; and the files of this machine that give their addresses names."""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import IO, TYPE_CHECKING

from zombiescope.core import UserError
from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Samples

if TYPE_CHECKING:
    from zombiescope.profile.kallsyms import Kallsyms, KallsymsText
    from zombiescope.profile.perf_data_mappings import Kernel
    from zombiescope.profile.perf_map import PerfMap
    from zombiescope.profile.symbols import Symbols

KNOWN = "not a format we read: perf.data, the text of `perf script`, folded stacks, pprof; gzipped or not"
PERF_DATA = (b"PERFILE2", b"PERFFILE", b"2ELIFREP")
_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 20
_BEGINNING = 64 << 10  # read to see what a file is
_LARGEST = 64 << 30  # bytes, unpacked: 12 hours of 96 cores at 49 Hz are 29 GB
_LARGEST_PROGRAM = 4 << 30
_KALLSYMS = _PERF_MAP = 64 << 20
_CACHE = "~/.debug"  # where perf keeps copies of what it found in samples
_DEBUG = "/usr/lib/debug/.build-id"


class Opened:
    """A file of samples that can be read at any offset; a gzipped one is unpacked into a temporary file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        try:
            self._file: IO[bytes] = _regular(path)
            if self._file.read(len(_GZIP)) == _GZIP:
                self._file = self._unpacked()
            self.size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error

    def close(self) -> None:
        self._file.close()

    def read(self, at: int, size: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size, at)
        except (OSError, OverflowError) as error:
            raise UserError(f"{self.path}: at byte {at}: {error}") from error

    def pieces(self) -> Iterator[bytes]:
        at = 0
        while piece := self.read(at, _BLOCK):
            yield piece
            at += len(piece)

    def _unpacked(self) -> IO[bytes]:
        """A temporary file without a name, gone when it is closed: the content may be larger than memory."""
        import gzip
        import tempfile

        size, unpacked = 0, tempfile.TemporaryFile()  # noqa: SIM115  (closed with us)
        self._file.seek(0)
        try:
            with self._file, gzip.GzipFile(fileobj=self._file) as packed:
                while (raw := packed.read1(_BLOCK)) and size <= _LARGEST:
                    size += unpacked.write(raw)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.notes.append(f"gzip is damaged after {size:,} unpacked bytes: {error}")
        unpacked.flush()
        if size and size <= _LARGEST:
            return unpacked
        unpacked.close()
        raise UserError(
            f"{self.path}: " + (f"larger than {_LARGEST >> 30} GB when unpacked" if size else (*self.notes, "empty")[0])
        )


def is_perf_data(path: str) -> bool:
    """By its first bytes, gzipped or not."""
    import gzip

    try:
        with _regular(path) as file:
            beginning = file.read(8)
            if beginning.startswith(_GZIP):
                file.seek(0)
                beginning = gzip.GzipFile(fileobj=file).read(8)
    except (OSError, EOFError, zlib.error):
        return False
    return beginning in PERF_DATA


def _regular(path: str) -> IO[bytes]:
    """Opened without blocking: a FIFO with no writer would never open, and a device may never end."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(0, "not a regular file", path)


def captured(path: str) -> Samples:
    """The samples of one file, whatever it is."""
    from dataclasses import replace

    label = os.path.basename(path)
    with closing(Opened(path)) as file:
        if not file.size:
            raise UserError(f"{path}: empty")
        try:
            found = _read(file, label)
        except Unparsable as error:
            raise UserError(f"{path}: offset {error.line}: {error.text}") from error
    return replace(found, label=label, notes=(*file.notes, *found.notes))


def _read(file: Opened, label: str) -> Samples:
    beginning = file.read(0, _BEGINNING)
    if beginning.startswith(PERF_DATA):
        from zombiescope.profile import perf_data

        names = Names(file.path)
        found = perf_data.capture(file.read, file.size, names.kernel, names.symbols, label=label)
        file.notes += names.notes
        return found
    from zombiescope.profile import folded, perf_script, pprof

    for looks_like, parse in (
        (pprof.looks_like, pprof.parse),
        (perf_script.looks_like, perf_script.parse),
        (folded.looks_like, folded.parse),
    ):
        if looks_like(beginning):
            return parse(file.pieces(), label)
    raise UserError(f"{file.path}: {KNOWN} (it begins with {beginning[:16]!r})")


class Names:
    """Where the names of a perf.data file's addresses come from, on this machine."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._of_this_boot = False  # so that pids are those of this machine
        self.notes: list[str] = []

    def kernel(self, kernel: Kernel | None, release: str) -> KallsymsText | None:
        """The kernel's symbols of the boot it was recorded in: kept beside it, this kernel's, or kept by perf."""
        beside = _kallsyms(f"{self._path}.kallsyms")
        if beside is not None:
            return beside
        build_id, here = kernel.build_id if kernel else "", os.uname().release
        if build_id == _running_build_id() if build_id else release in ("", here):
            running = _running_kallsyms()
            # The kernel's load address differs from boot to boot.
            if running is not None and (kernel is None or running.zeroed or running.text_base == kernel.address):
                if not build_id and not release:
                    self.notes.append(
                        f"the file does not name its kernel: names are taken from the running one, {here}"
                    )
                self._of_this_boot = True
                return running
        kept = _kallsyms(os.path.expanduser(f"{_CACHE}/[kernel.kallsyms]/{build_id}/kallsyms")) if build_id else None
        return kept if kept is not None and kernel is not None and kept.text_base == kernel.address else None

    def symbols(self, kernel: Kallsyms | None) -> Symbols:
        from zombiescope.profile.symbols import Symbols

        return Symbols(kernel, _program, debug=_debug_file, perf_maps=_PerfMaps() if self._of_this_boot else None)


class _PerfMaps(Mapping[int, "PerfMap"]):
    """Functions of just-in-time compilers, by pid; read when they are needed."""

    def __getitem__(self, pid: int) -> PerfMap:
        from zombiescope.profile.perf_map import PerfMap

        found = _mapped(f"/tmp/perf-{pid}.map")
        if found is None:
            raise KeyError(pid)
        return PerfMap.parse(bytes(found[:_PERF_MAP]))

    def __iter__(self) -> Iterator[int]:
        names = os.listdir("/tmp")
        return (
            int(it[5:-4]) for it in names if it.startswith("perf-") and it.endswith(".map") and it[5:-4].isdecimal()
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _running_kallsyms() -> KallsymsText | None:
    return _kallsyms("/proc/kallsyms")


def _kallsyms(path: str) -> KallsymsText | None:
    from zombiescope.profile.kallsyms import KallsymsText

    try:
        with _regular(path) as file:
            return KallsymsText(file.read(_KALLSYMS + 1), path)
    except (OSError, Unparsable):
        return None


@cache
def _running_build_id() -> str:
    try:
        with open("/sys/kernel/notes", "rb") as file:
            notes = file.read(1 << 16)
    except OSError:
        return ""
    at = 0
    while at + 12 <= len(notes):
        name, length, kind = (int.from_bytes(notes[at + part : at + part + 4], "little") for part in (0, 4, 8))
        begins = at + 12 + (name + 3 & ~3)
        if kind == 3 and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[begins : begins + length].hex()
        at = begins + (length + 3 & ~3)
    return ""


def _program(path: str, build_id: str) -> memoryview | None:
    if path == "[vdso]":
        return _vdso()
    if not path.startswith("/") or path.endswith(" (deleted)"):
        return None
    kept = os.path.expanduser(f"{_CACHE}/.build-id/{build_id[:2]}/{build_id[2:]}/elf")
    return (_mapped(kept) if build_id else None) or _mapped(path)


def _debug_file(_path: str, build_id: str) -> memoryview | None:
    return _mapped(f"{_DEBUG}/{build_id[:2]}/{build_id[2:]}.debug") if build_id else None


def _mapped(path: str) -> memoryview | None:
    """A file's content; only the pages that are used are read."""
    try:
        with _regular(path) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_PROGRAM:
                return None
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):
        return None


@cache
def _vdso() -> memoryview | None:
    """The kernel maps the same one into every process, so ours will do."""
    try:
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
            for line in maps:
                if line.rstrip().endswith("[vdso]"):
                    start, _, end = line.split(" ", 1)[0].partition("-")
                    memory.seek(int(start, 16))
                    return memoryview(memory.read(int(end, 16) - int(start, 16)))
    except (OSError, ValueError):
        return None
    return None
