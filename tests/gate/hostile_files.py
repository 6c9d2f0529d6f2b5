"""Files that an image may have where a text is expected: nothing that reads it may open, follow or believe them."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.gate.trees import LEAK

CANARY = "canary-7f3a"
Maker = Callable[[Path, Path], None]


def outside(folder: Path) -> Path:
    """A file that no image may lead us to; where it was read shows in what is printed."""
    path = folder / "outside" / "canary.service"
    path.parent.mkdir()
    path.write_text(f"[Unit]\nDescription={CANARY}\nWants={CANARY}.service\n{LEAK}")
    return path


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def device(path: Path, _: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # zero: reading it never ends


def null_device(path: Path, _: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))


def unix_socket(path: Path, _: Path) -> None:
    here = os.open(path.parent, os.O_PATH)  # a socket's address has room for 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def leads_up_and_out(path: Path, canary: Path) -> None:
    path.symlink_to(os.path.relpath(canary, path.parent))


def leads_out(path: Path, canary: Path) -> None:
    path.symlink_to(canary)


def folder_leads_out(path: Path, canary: Path) -> None:
    """The folder that it is in, not the file, is the link; the canary has its name there."""
    (canary.parent / path.name).write_bytes(canary.read_bytes())
    kept = path.parent.with_name(path.parent.name + ".was")
    path.parent.rename(kept)
    path.parent.symlink_to(canary.parent)


def circles(path: Path, _: Path) -> None:
    other = path.with_name(f"other-{path.name}")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def huge(path: Path, _: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


def folder(path: Path, _: Path) -> None:
    path.mkdir()


def nul(path: Path, _: Path) -> None:
    path.write_bytes(b"\0[Service]\0ExecStart=/a\0b\0\0" + bytes(range(256)) * 9)


# What only root can make is left out of a run by anybody else.
MAKERS = [fifo, device, null_device, unix_socket, leads_up_and_out, leads_out, circles, huge, folder, nul]


def put(path: Path, make: Maker, canary: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    make(path, canary)


_watching: list[tuple[str, str]] = []
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty")
_BY_NUMBER = "/proc/self/fd/"
_on = False


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _on and (event in ("open", "os.listdir", "os.scandir", "sqlite3.connect") or event in _STARTS):
        told = arguments[0] if arguments else ""
        path = os.fsdecode(told) if isinstance(told, str | bytes) else f"{_BY_NUMBER}{told}"
        if path.startswith(_BY_NUMBER):  # a descriptor that opens nothing is opened, or listed: which file it is of
            with suppress(OSError):
                path = os.readlink(path)
        _watching.append((event, path.removeprefix("file:").partition("?")[0]))


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """All that Python opens, lists or starts in this process, by its own audit events."""
    global _on
    if _hook not in _hooked:
        sys.addaudithook(_hook)
        _hooked.append(_hook)
    _watching.clear()
    _on = True
    try:
        yield _watching
    finally:
        _on = False


_hooked: list[object] = []


def refuse(events: list[tuple[str, str]], root: Path, canary: Path) -> None:
    """Nothing was started; no path led to the canary's folder; of the root only regular files and folders."""
    assert [it for it in events if it[0] in _STARTS] == []
    inside = [path for _, path in events if path.startswith(f"{root}/")]
    assert len(inside) > 20, "or it tests nothing"
    for path in {path for _, path in events if path.startswith("/")}:
        real = os.path.realpath(path)
        assert not real.startswith(str(canary.parent)), path
        with suppress(FileNotFoundError, NotADirectoryError):
            mode = os.stat(path).st_mode
            assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path.startswith("/dev/"), path
