"""A small root file system for the guests: the Python that runs this, numpy, our package, and nothing else.

No shell and no other tool is needed, as Python is the first process. The kernel unpacks several archives laid end to
end, so the large part, which seldom changes, is kept, and only the small part is made for each boot.
"""

from __future__ import annotations

import compileall
import hashlib
import os
import py_compile
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tests.kernels.packages import cache_folder, tool

import zombiescope

PYTHON = os.path.realpath(sys.executable)
SITE = "/site"  # in the guest: numpy and our package
_SKIP = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo"}
_SKIP |= {"lib2to3", "ensurepip", "pydoc_data", "f2py", "include"}
_KEEP = {".py", ".so", ".toml", ""}  # the last: licences and the like, which are small
_FOLDERS = ("dev", "proc", "sys", "run", "tmp")
_PAGE = 4096


def base() -> Path:
    """The archive with Python, its libraries and numpy: made once for each version of these."""
    key = hashlib.sha256(f"{PYTHON} {sys.version} {version('numpy')} 2".encode()).hexdigest()[:12]
    kept = cache_folder() / f"python-{key}.cpio"
    if not kept.exists():
        print("packing Python and numpy for the guests", flush=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".python-", dir=kept.parent) as building:
            root = Path(building) / "root"
            _stage_python(root)
            _pack(root, Path(building) / "cpio")
            for outdated in kept.parent.glob("python-*.cpio"):
                outdated.unlink()
            os.rename(Path(building) / "cpio", kept)
    return kept


def archive(target: Path, first_process: Path, files: dict[str, bytes]) -> None:
    """Write `target`: the base, our package as it is now, `first_process` as /init, and `files`."""
    with tempfile.TemporaryDirectory() as building:
        root = Path(building)
        _copy_python_files(Path(zombiescope.__file__).parent, root / SITE[1:] / "zombiescope")
        _compile(root)
        for path, content in files.items():
            _place(root, path).write_bytes(content)
        init = _place(root, "/init")
        init.write_text(f"#!{PYTHON} -SB\n{first_process.read_text()}")
        init.chmod(0o755)
        with target.open("wb") as out:
            with base().open("rb") as kept:
                shutil.copyfileobj(kept, out)
            _write(out, root)


def ext4_image(name: str, pages: int) -> bytes:
    """A small ext4 file system with one file of so many pages, written here so that the guest only has to read it."""
    with tempfile.TemporaryDirectory() as building:
        content, image = Path(building) / "content", Path(building) / "image"
        file = content / name
        file.parent.mkdir(parents=True)
        file.write_bytes(b"z" * pages * _PAGE)
        make = [tool("mke2fs"), "-q", "-t", "ext4", "-b", str(_PAGE), "-O", "^has_journal", "-d"]
        subprocess.run([*make, str(content), str(image), "4M"], check=True, capture_output=True)
        return image.read_bytes()


def _stage_python(root: Path) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    numpy = Path(np.__file__).parent
    _copy_python_files(library, root / str(library)[1:])
    _copy_python_files(numpy, root / SITE[1:] / "numpy")
    bundled = numpy.parent / "numpy.libs"
    if bundled.exists():  # in wheels; a distribution's numpy links to the system's
        shutil.copytree(bundled, root / SITE[1:] / "numpy.libs")
    binaries = [PYTHON, *map(str, root.rglob("*.so"))]
    for path in {PYTHON, *_libraries(binaries)}:
        if not path.startswith(f"{root}/"):  # what numpy brings along lies where it will look for it
            shutil.copy2(path, _place(root, path))
    _compile(root)


# libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f…), and the loader without an arrow
def _libraries(binaries: Iterable[str]) -> set[str]:
    told = subprocess.run([tool("ldd"), *binaries], capture_output=True, text=True, check=False).stdout
    return {os.path.normpath(path) for path in re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", told, re.MULTILINE)}


def _copy_python_files(source: Path, target: Path) -> None:
    def unwanted(folder: str, names: list[str]) -> list[str]:
        files = (name for name in names if not os.path.isdir(os.path.join(folder, name)))
        return [*_SKIP.intersection(names), *(name for name in files if not _wanted(Path(name)))]

    shutil.copytree(source, target, ignore=unwanted, symlinks=False, ignore_dangling_symlinks=True)


# Not the bridge to Tk, which would bring all of X along.
def _wanted(file: Path) -> bool:
    return file.suffix in _KEEP and not file.name.startswith("_tkinter")


# Compiled here, as an emulated CPU takes long. Not checked against the source in the guest, where the times of files
# may be those of the boot.
def _compile(root: Path) -> None:
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(root, maxlevels=99, quiet=2, invalidation_mode=mode, workers=os.cpu_count() or 1)


def _place(root: Path, path: str) -> Path:
    place = root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _pack(root: Path, target: Path) -> None:
    for folder in _FOLDERS:
        (root / folder).mkdir(exist_ok=True)
    with target.open("wb") as out:
        _write(out, root)


# The "newc" format, as in the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.
def _write(out: BinaryIO, root: Path) -> None:
    # Sorted, as a folder must come before what is in it.
    for number, path in enumerate(sorted(root.rglob("*")), start=1):
        folder = path.is_dir()
        content = b"" if folder else path.read_bytes()
        mode = stat.S_IFDIR | 0o755 if folder else stat.S_IFREG | path.stat().st_mode & 0o755
        _entry(out, number, os.fsencode(path.relative_to(root)), mode, content)
    _entry(out, 0, b"TRAILER!!!", 0, b"")


def _entry(out: BinaryIO, inode: int, name: bytes, mode: int, content: bytes) -> None:
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name + b"\0"
    out.write(head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4))
