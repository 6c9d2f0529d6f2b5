"""The files of this machine that name the addresses of a perf.data file: programs, debug files, perf maps, kallsyms."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.naming.kallsyms import Kernel
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.processes.opening import identity, place
from zombiescope.processes.opening import names as first_names

if TYPE_CHECKING:  # a heatmap needs no names of functions
    from zombiescope.naming.contents import Contents
    from zombiescope.naming.elf import Elf
    from zombiescope.naming.perf_map import PerfMap
    from zombiescope.naming.symbols import Symbols

_KALLSYMS = _PERF_MAP = 64 << 20
_MOST_IN_TMP = 100_000  # names in /tmp, which everybody may fill
_RUNNING = "/proc/kallsyms"
_FIRST = 128 << 10  # bytes of it that hold _text: before it are some hundred symbols of each core's own
_CACHE = "~/.debug"  # where perf keeps copies of what it found in samples


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
        if _is_stranger_s(self._path):
            self.notes.append(
                "the file is not root's, or others can write to it: root does not ask this machine's kernel; "
                "--kallsyms FILE gives the names"
            )
            return None
        build_id, here = kernel.build_id if kernel else "", os.uname().release
        # The kernel's load address differs from boot to boot.
        of_perf = os.path.expanduser(f"{_CACHE}/[kernel.kallsyms]/{build_id}/kallsyms")
        kept = _kallsyms(of_perf, owned=True) if build_id else None
        if kept is not None and (kernel is None or kept.text_base != kernel.address):
            kept = None
        if build_id == _running_build_id() if build_id else release in ("", here):
            if kept is not None and kept.text_base == _running_text_base():  # 50 ms of the kernel's are saved
                self._of_this_boot = True
                return KallsymsText(kept.text, kept.source, running=_running_text)
            running = _running_kallsyms()
            if running is not None and (kernel is None or running.zeroed or running.text_base == kernel.address):
                if not build_id and not release:
                    self.notes.append(
                        f"the file does not name its kernel: names are taken from the running one, {here}"
                    )
                self._of_this_boot = True
                return running
        return kept

    def symbols(self, kernel: KallsymsText | None) -> Symbols:
        from zombiescope.naming.symbols import Symbols

        return Symbols(kernel, program, debug=_with_debug_file, perf_maps=_PerfMaps() if self._of_this_boot else None)


def _is_stranger_s(path: str) -> bool:
    """Root does not name the addresses, nor ask the processes, that somebody else has chosen."""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return os.geteuid() == 0 and (found.st_uid != 0 or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)))


class _PerfMaps(Mapping[int, "PerfMap"]):
    """Functions of just-in-time compilers, by pid; read when they are needed."""

    def __getitem__(self, pid: int) -> PerfMap:
        from zombiescope.naming.perf_map import PerfMap

        found = _opened(f"/tmp/perf-{pid}.map")
        if found is None:
            raise KeyError(pid)
        with closing(found):
            return PerfMap.parse(found.read(0, _PERF_MAP))

    def __iter__(self) -> Iterator[int]:
        names, _ = first_names("/tmp", _MOST_IN_TMP)
        return (
            int(it[5:-4]) for it in names if it.startswith("perf-") and it.endswith(".map") and it[5:-4].isdecimal()
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _running_kallsyms() -> KallsymsText | None:
    return _kallsyms(_RUNNING)


def _running_text() -> bytes:
    with open(_RUNNING, "rb") as file:
        return file.read(_KALLSYMS + 1)


@cache
def _running_text_base() -> int:
    """The address of _text, which is among the first symbols; 0 if it is not, or hidden."""
    try:
        with open(_RUNNING, "rb") as file:
            return KallsymsText(file.read(_FIRST), _RUNNING).text_base or 0
    except (OSError, Unparsable):
        return 0


def _kallsyms(path: str, *, owned: bool = False) -> KallsymsText | None:
    """`owned`: that of another than root and this user is not believed."""
    try:
        with place(path) as descriptor:
            if identity(descriptor).owner not in (0, os.geteuid()) and owned:
                return None
            with open(f"/proc/self/fd/{descriptor}", "rb") as file:  # the kernel's own file has no size
                return KallsymsText(file.read(_KALLSYMS + 1), path)
    except (OSError, Unreadable, Unparsable):
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


def program(path: str, build_id: str) -> Contents | None:
    """A program or library of this machine: perf's copy of that build, else what is there now."""
    if path == "[vdso]":
        from zombiescope.naming.contents import Held
        from zombiescope.naming.vdso import vdso

        return Held(vdso()) if vdso() else None
    if not path.startswith("/") or path.endswith(" (deleted)"):
        return None
    kept = os.path.expanduser(f"{_CACHE}/.build-id/{build_id[:2]}/{build_id[2:]}/elf")
    return (_opened(kept) if build_id else None) or _opened(path)


def _with_debug_file(elf: Elf, path: str) -> Elf:
    from zombiescope.naming.contents import host_file
    from zombiescope.naming.debug_files import with_debug_file

    return with_debug_file(elf, path, host_file, host_file)


def _opened(path: str) -> Contents | None:
    from zombiescope.naming.contents import host_file

    try:
        return host_file(path)
    except Unreadable:
        return None
