"""The names of the running kernel's functions, kept once for each boot beside the segments.

With them a head that was never settled (a power cut, a node that starved its recorder) names its kernel's functions on
any machine. Reading the table takes 0.2 s of CPU, packing it 0.15 s: not for a recording of seconds, which is settled
when it ends. Standard library only: the capture process imports this.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress

from zombiescope.core import UserError
from zombiescope.processes.opening import inside, reading
from zombiescope.recorder.folder import Folder

SOURCE = "/proc/kallsyms"
AFTER = 20.0  # seconds of recording
LEAST = 64 << 20  # bytes that the recording may take: 2 to 4 MB beside it are little then
LARGEST = 64 << 20  # bytes of the table, unpacked; a distribution's kernel with all modules has 12 MB
KEPT = 3  # boots
_AT_ONCE = 1 << 20
_SHOWN = re.compile(rb"^0*[1-9a-f][0-9a-f]* ", re.MULTILINE)  # an address that is not hidden
_BOOT = re.compile(r"[0-9a-f-]{8,64}")
_NAME = re.compile(r"kallsyms-[0-9a-f-]{8,64}\.gz")


class KernelTable:
    """Kept when the recording has lasted for a while; in the thread that writes to disk."""

    def __init__(self, folder: Folder, boot_id: str, most_bytes: int, monotonic: Callable[[], float]) -> None:
        self._folder, self._boot_id, self._monotonic = folder, boot_id, monotonic
        self._due = monotonic() + AFTER if _BOOT.fullmatch(boot_id) and most_bytes >= LEAST else float("inf")

    def tend(self) -> None:
        """Now and then. That it cannot be kept costs only names."""
        if self._monotonic() < self._due:
            return
        self._due = float("inf")
        name = f"kallsyms-{self._boot_id}.gz"
        with suppress(OSError, UserError):
            there = [it for it in os.listdir(self._folder.path) if _NAME.fullmatch(it)]
            if name not in there and (packed := b"".join(_packed())):
                self._folder.write(name, packed)
                self._folder.forget(_oldest(self._folder.path, there))


def saved(folder: str, boot_id: str) -> bytes | None:
    """As it was read, of a recording that may come from a stranger; None if there is none."""
    if not _BOOT.fullmatch(boot_id):
        return None
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with (
                inside(handle, f"kallsyms-{boot_id}.gz", links=False) as place,
                os.fdopen(reading(place), "rb") as file,
            ):
                unpacking = zlib.decompressobj(wbits=31)
                text = unpacking.decompress(file.read(LARGEST), LARGEST)
        finally:
            os.close(handle)
    except (OSError, zlib.error):
        return None
    return text if unpacking.eof else None


def _packed() -> Iterator[bytes]:
    """Nothing, where the kernel hides its addresses."""
    packing = zlib.compressobj(1, wbits=31)
    with open(SOURCE, "rb", buffering=0) as file:
        first = file.read(_AT_ONCE)
        if not _SHOWN.search(first):
            return
        yield packing.compress(first)
        while piece := file.read(_AT_ONCE):
            yield packing.compress(piece)
    yield packing.flush()


def _oldest(folder: str, names: list[str]) -> list[str]:
    """Those of the boots before the last ones."""
    return sorted(names, key=lambda name: os.lstat(os.path.join(folder, name)).st_mtime)[: -KEPT + 1]
