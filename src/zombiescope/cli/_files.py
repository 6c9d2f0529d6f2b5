"""Files of samples, recognised by their content."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple

from zombiescope.core import UserError, harmless
from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Samples
from zombiescope.places.packed import DAMAGED, is_packed, plain
from zombiescope.processes.opening import names, regular

if TYPE_CHECKING:
    from zombiescope.naming.kallsyms import Kernel
    from zombiescope.naming.kallsyms_text import KallsymsText
    from zombiescope.naming.this_machine import Names

KNOWN = (
    "not a format we read: perf.data, the text of `perf script`, folded stacks, pprof, speedscope, .cpuprofile; "
    "packed or not"
)
PERF_DATA = (b"PERFILE2", b"PERFFILE", b"2ELIFREP")
# `goroutine profile: total 7`, `heap profile: 1: 2 [3: 4] @ heap/8`, `--- mutex:`, and a dump of goroutines
_GO_TEXT = (b"goroutine ", b"heap profile: ", b"threadcreate profile: ", b"--- mutex:", b"--- contention:")
THREADS = "data"  # the file with the header in the folder of `perf record --threads`
_MOST_THREADS = 900  # of one file each, which must all be open at once
_MOST_BESIDE = 100_000  # names in that folder, 10 MB
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_MARK = 3  # bytes of the longest
_BLOCK = 1 << 20
_ELF = b"\x7fELF"
_KALLSYMS = 64 << 20  # bytes: 200,000 symbols are 10 MB
_BEGINNING = 64 << 10  # read to see what a file is
_LARGEST = 64 << 30  # bytes, unpacked: 12 hours of 96 cores at 49 Hz are 29 GB


class Opened:
    """A file of samples that can be read at any offset; a packed one is unpacked into a temporary file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.notes: list[str] = []
        try:
            self._file: IO[bytes] = _regular(path)
            if is_packed(self._file):
                self._file = self._unpacked()
            self.size = os.fstat(self._file.fileno()).st_size
        except OSError as error:
            raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def read(self, at: int, size: int) -> bytes:
        try:
            return os.pread(self._file.fileno(), size, at)
        except (OSError, OverflowError) as error:
            raise UserError(f"{self.path}: at byte {at}: {error}") from error

    def pieces(self) -> Iterator[bytes]:
        """All of it; text with a byte-order mark, as Windows writes it, comes as UTF-8 without one."""
        at = 0
        decoder = _decoder(self.read(0, _MARK))
        while piece := self.read(at, _BLOCK):
            yield piece if decoder is None else decoder.decode(piece).encode("utf-8", "replace")
            at += len(piece)

    def beginning(self) -> bytes:
        """The first part of it, enough to see what it is."""
        raw = self.read(0, _BEGINNING)
        decoder = _decoder(raw[:_MARK])
        return raw if decoder is None else decoder.decode(raw).encode("utf-8", "replace")

    def _unpacked(self) -> IO[bytes]:
        """A temporary file without a name, gone when it is closed: the content may be larger than memory."""
        import tempfile

        size, unpacked = 0, tempfile.TemporaryFile()  # noqa: SIM115  (closed with us)
        try:
            with self._file, plain(self._file) as packed:
                read = getattr(packed, "read1", packed.read)  # what is before the damage is kept
                while (raw := read(_BLOCK)) and size <= _LARGEST:
                    size += unpacked.write(raw)
        except (OSError, *DAMAGED) as error:
            if getattr(error, "errno", None):  # of the disk
                raise
            self.notes.append(f"damaged after {size:,} unpacked bytes: {error}")
        unpacked.flush()
        if size and size <= _LARGEST:
            return unpacked
        unpacked.close()
        raise UserError(
            f"{self.path}: " + (f"larger than {_LARGEST >> 30} GB when unpacked" if size else (*self.notes, "empty")[0])
        )


def _decoder(mark: bytes) -> codecs.IncrementalDecoder | None:
    """For text that begins with a byte-order mark; None for anything else."""
    for begins, encoding in _MARKS.items():
        if mark.startswith(begins):
            return codecs.getincrementaldecoder(encoding)("replace")
    return None


def of_threads(folder: str) -> list[str]:
    """The files of a folder that `perf record --threads` wrote beside the first, `data`: one for each thread."""
    beside, more = names(folder or ".", _MOST_BESIDE)
    found = [it for it in beside if it.startswith(f"{THREADS}.") and it[5:].isdecimal()]
    if more or len(found) > _MOST_THREADS:
        many = f"more than {_MOST_BESIDE:,} files" if more else f"{len(found):,} files of threads"
        raise UserError(f"{folder}: {many}; at most {_MOST_THREADS:,} files of threads are read")
    return [os.path.join(folder, it) for it in sorted(found, key=lambda it: int(it[5:][:9]))]


def is_perf_data(path: str) -> bool:
    """By its first bytes, packed or not."""
    try:
        with _regular(path) as file:
            beginning = plain(file).read(8)
    except (OSError, *DAMAGED):
        return False
    return beginning in PERF_DATA


def _regular(path: str) -> IO[bytes]:
    """A FIFO with no writer would never open, and a device may act or never end: neither is opened."""
    return os.fdopen(regular(path), "rb")


# When the stacks of a perf.data file are read: at once; of a part, when it is asked for (Samples.in_full); or never,
# where it is enough to know when and where samples were taken.
NOW, LATER, NEVER = "now", "later", "never"


class Asked(NamedTuple):
    """Which of several events or values to show, by name, None for the file's own choice; and how to name functions."""

    event: str | None = None
    value: str | None = None
    kallsyms: str | None = None  # a copy of the kernel's symbols, in place of what is found
    stacks: str = NOW

    @property
    def chooses(self) -> bool:
        return self.event is not None or self.value is not None


NOTHING_ASKED = Asked()


def captured(path: str, asked: Asked = NOTHING_ASKED) -> Samples:
    """The samples of one file, whatever it is; or of the folder that `perf record --threads` leaves."""
    from dataclasses import replace

    label = os.path.basename(os.path.normpath(path))
    with ExitStack() as files:
        file = files.enter_context(closing(Opened(os.path.join(path, THREADS) if os.path.isdir(path) else path)))
        if not file.size:
            raise UserError(f"{path}: empty")
        try:
            found = _read(file, label, asked, files)
        except Unparsable as error:
            raise UserError(f"{path}: offset {error.line}: {error.text}") from error
        if found.in_full is not None and asked.stacks == LATER:
            files.pop_all()
    return replace(found, label=label, notes=(*file.notes, *found.notes))


def _read(file: Opened, label: str, asked: Asked, files: ExitStack) -> Samples:
    beginning = file.beginning()
    if beginning.startswith(PERF_DATA):
        from zombiescope.naming.this_machine import Names, program
        from zombiescope.profile import perf_data

        _refuse_value(file.path, asked, "perf.data")
        names = Names(file.path)
        parts = of_threads(os.path.dirname(file.path)) if os.path.basename(file.path) == THREADS else []
        more = [files.enter_context(closing(Opened(each))) for each in parts]
        found = perf_data.capture(
            file.read,
            file.size,
            partial(_kernel, names, file.path, asked.kallsyms),
            names.symbols,
            label=label,
            event=asked.event,
            more=[(each.read, each.size) for each in more],
            open_file=program,
            stacks=asked.stacks == NOW,
        )
        file.notes += names.notes
        return found
    from zombiescope.profile import folded, json_files, perf_script, pprof

    if pprof.looks_like(beginning):
        if asked.event is not None:
            raise UserError(f"{file.path}: pprof has values, not events: use --value {asked.event}")
        return pprof.parse(file.pieces(), label, asked.value)
    if json_files.looks_like(beginning):
        if asked.chooses:
            raise UserError(f"{file.path}: this format has one measure: leave out --event and --value")
        return json_files.parse(file.pieces(), label)
    if perf_script.looks_like(beginning):
        _refuse_value(file.path, asked, "the text of `perf script`")
        return perf_script.parse(file.pieces(), label, asked.event)
    if folded.looks_like(beginning):
        if asked.chooses:
            raise UserError(f"{file.path}: folded stacks have one count: leave out --event and --value")
        return folded.parse(file.pieces(), label)
    raise UserError(f"{file.path}: {_unknown(beginning)}")


def _kernel(names: Names, path: str, given: str | None, kernel: Kernel | None, release: str) -> KallsymsText | None:
    """The kernel's symbols: those given; else those of its own boot. A file that does not name its kernel has none."""
    from zombiescope.naming.kallsyms_text import KallsymsText

    if given is not None:
        with closing(Opened(given)) as file:
            try:
                if file.read(0, len(_ELF)) == _ELF:
                    from zombiescope.naming.vmlinux import kallsyms_of

                    return kallsyms_of(file, given, kernel)
                return KallsymsText(file.read(0, _KALLSYMS), given)
            except Unparsable as error:
                what = error.text if file.read(0, len(_ELF)) == _ELF else f"line {error.line}: {harmless(error.text)}"
                raise UserError(f"{given}: not a copy of /proc/kallsyms, nor a vmlinux: {what}") from error
    named = bool(release) or (kernel is not None and bool(kernel.build_id))
    return names.kernel(kernel, release) if named or os.path.exists(f"{path}.kallsyms") else None


def _unknown(beginning: bytes) -> str:
    if beginning.startswith(_GO_TEXT):
        return "Go's profile as text (debug=1 or 2): fetch it without ?debug=, which gives pprof"
    return f"{KNOWN} (it begins with {beginning[:16]!r})"


def _refuse_value(path: str, asked: Asked, what: str) -> None:
    if asked.value is not None:
        raise UserError(f"{path}: {what} has events, not values: use --event {asked.value}")
