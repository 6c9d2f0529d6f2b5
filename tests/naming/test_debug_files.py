"""Stripped libraries named by their debug files: found where gdb finds them, never of another build; nothing waits."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.naming.programs import LOADER, compiled, name_at, needs_root, running

from zombiescope.naming import debug_files
from zombiescope.naming.elf import Elf

OFFSET = re.compile(r"libwalk\.so\+0x[0-9a-f]+")
SOURCE = """
static __attribute__((noinline)) int hidden(int n) { int s = 1; while (n--) s += n * n; return s; }
int (*walk)(int) = hidden;
"""


class Stripped:
    """A library without symbols, its debug file, and a debug folder of its own in place of /usr/lib/debug."""

    def __init__(self, at: Path, *flags: str) -> None:
        self.loader = compiled(LOADER, at / "loader")
        self.library = compiled(SOURCE, at / "lib" / "libwalk.so", "-g", "-shared", "-fPIC", *flags)
        whole = Elf.parse(self.library.read_bytes())
        self._offset = next(start for start, _, name in whole.functions if name == "hidden")
        self.build_id = whole.build_id
        self.debug = at / "kept" / "libwalk.so.debug"
        self.debug.parent.mkdir()
        self.folder = at / "debug"
        self.folder.mkdir()
        subprocess.run(["objcopy", "--only-keep-debug", self.library, self.debug], check=True)
        subprocess.run(["strip", self.library], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={self.debug}", self.library], check=True)

    @property
    def places(self) -> dict[str, Path]:
        beside, name = self.library.parent, self.debug.name
        by_id = self.folder / ".build-id" / self.build_id[:2] / f"{self.build_id[2:]}.debug"
        below = self.folder / str(beside).lstrip("/") / name
        return {"beside": beside / name, "below": beside / ".debug" / name, "folder": below, "build-id": by_id}

    def put(self, place: str, folder: Path | None = None) -> Path:
        where = self.places[place]
        if folder is not None:
            where = folder / where.relative_to(self.folder)
        where.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.debug, where)
        return where

    def name(self, *contained: str) -> str:
        """Of the function that has no symbol, in a process that runs now."""
        inner = " && ".join([*contained, f"exec {self.loader} {self.library} walk"])
        with running(*(("unshare", "-m", "sh", "-c", inner) if contained else (self.loader, self.library, "walk"))) as (
            process,
            (address,),
        ):
            assert address
            lines = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
            start = next(int(line.split("-")[0], 16) for line in lines if str(self.library) in line)
            return name_at(process.pid, start + self._offset + 4)


@pytest.fixture
def stripped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stripped]:
    needs_root()
    if not all(map(shutil.which, ("gcc", "objcopy", "strip"))):
        pytest.skip(CANNOT + "strip a library: no gcc or binutils")
    monkeypatch.setattr(debug_files, "FOLDER", str(tmp_path / "debug"))
    return lambda *flags: Stripped(tmp_path, *flags)


@pytest.mark.parametrize("place", ["beside", "below", "folder", "build-id"])
def test_a_debug_file_is_found_where_gdb_finds_it(stripped: Callable[..., Stripped], place: str) -> None:
    library = stripped()
    assert OFFSET.fullmatch(library.name())
    library.put(place)
    assert library.name() == "hidden"


def test_without_a_build_id_the_checksum_decides(stripped: Callable[..., Stripped]) -> None:
    library = stripped("-Wl,--build-id=none")
    assert not library.build_id
    where = library.put("beside")
    assert library.name() == "hidden"
    with where.open("ab") as file:
        file.write(b"\0")
    assert OFFSET.fullmatch(library.name()), "the same symbols, but not the same file"


def test_another_build_is_not_used(stripped: Callable[..., Stripped], tmp_path: Path) -> None:
    library = stripped()
    other = compiled(SOURCE.replace("s = 1", "s = 12345"), tmp_path / "other.so", "-g", "-shared", "-fPIC")
    for place in library.places:
        shutil.copy(other, library.put(place))
    assert OFFSET.fullmatch(library.name())


def _fifo(where: Path, _at: Path) -> None:
    os.mkfifo(where)


def _device(where: Path, _at: Path) -> None:
    os.mknod(where, 0o20666, os.makedev(1, 5))  # /dev/zero: opened, it would be read without end


def _folder(where: Path, _at: Path) -> None:
    where.mkdir()


def _link(where: Path, at: Path) -> None:
    if not (at / "fifo").exists():
        os.mkfifo(at / "fifo")
    where.symlink_to(at / "fifo")


def _noise(where: Path, _at: Path) -> None:
    where.write_bytes(b"\x7fELF" + os.urandom(5000))


@pytest.mark.parametrize("put", [_fifo, _device, _folder, _link, _noise])
def test_what_is_no_debug_file_is_left_alone(
    stripped: Callable[..., Stripped], tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    library = stripped()
    for where in library.places.values():
        where.parent.mkdir(parents=True, exist_ok=True)
        put(where, tmp_path)
    assert OFFSET.fullmatch(library.name())


def test_a_container_is_named_by_its_own_debug_files(stripped: Callable[..., Stripped], tmp_path: Path) -> None:
    library = stripped("-Wl,--build-id=none")
    inside = tmp_path / "image"
    library.put("folder", inside)
    assert OFFSET.fullmatch(library.name())
    assert library.name(f"mount --bind {inside} {library.folder}") == "hidden"


def test_a_link_to_a_debug_file_is_followed_within_the_container(
    stripped: Callable[..., Stripped], tmp_path: Path
) -> None:
    """As Fedora has them: .build-id/xx/yy.debug leads to the file."""
    library = stripped()
    image = tmp_path / "image"
    where = image / library.places["build-id"].relative_to(library.folder)
    where.parent.mkdir(parents=True)
    shutil.copy(library.debug, image / "any.debug")
    where.symlink_to(library.folder / "any.debug")  # which the host does not have
    assert library.name(f"mount --bind {image} {library.folder}") == "hidden"
    (image / "any.debug").unlink()
    assert OFFSET.fullmatch(library.name(f"mount --bind {image} {library.folder}"))


def test_the_host_names_a_container_by_build_id_only(stripped: Callable[..., Stripped], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    hide = f"mount --bind {tmp_path / 'empty'} {tmp_path / 'debug'}"
    library = stripped()
    library.put("folder")
    assert library.name() == "hidden" and OFFSET.fullmatch(library.name(hide))
    library.put("build-id")
    assert library.name(hide) == "hidden"
