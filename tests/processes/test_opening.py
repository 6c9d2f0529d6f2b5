"""Files that others chose: what is no file is not opened, and no link leads out of a root, in any kernel's way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from tests.naming.programs import needs_root

from zombiescope.processes import opening
from zombiescope.processes.opening import _walked, identity, inside, names, place, reading, regular, regular_inside

Way = Callable[[int, str], AbstractContextManager[int]]


@contextmanager
def walked(root: int, path: str, *, follow: bool = True, links: bool = True) -> Iterator[int]:
    """As on a kernel before 5.6."""
    descriptor = _walked(root, path, follow, links)
    yield descriptor
    os.close(descriptor)


def test_what_is_no_file_is_never_opened(tmp_path: Path) -> None:
    needs_root()
    os.mkfifo(tmp_path / "fifo")
    os.mknod(tmp_path / "device", 0o20600, os.makedev(10, 130))  # /dev/watchdog: opening it restarts a machine
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with place(str(tmp_path)) as root:
        for name in ("fifo", "device", "folder", "link"):
            for look in (identity, reading):
                with inside(root, f"/{name}") as descriptor, pytest.raises(OSError, match="not a regular file"):
                    look(descriptor)
        with inside(root, "/file") as descriptor:
            assert identity(descriptor).inode == (tmp_path / "file").stat().st_ino
            os.close(reading(descriptor))


def test_no_link_leads_out_of_a_root(tmp_path: Path) -> None:
    (tmp_path / "root" / "real").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"x")
    (tmp_path / "root" / "real" / "secret").write_bytes(b"xy")
    for name, to in {"up": "../..", "away": str(tmp_path), "magic": "/proc/self/root", "fine": "/real"}.items():
        (tmp_path / "root" / name).symlink_to(to)
    with place(str(tmp_path / "root")) as root:
        for way in (inside, walked):
            for path in (
                "/up/secret",
                f"/up{tmp_path}/secret",
                "/away/secret",
                f"/magic{tmp_path}/secret",
                "/../secret",
            ):
                with pytest.raises(OSError), way(root, path):
                    pass
            with way(root, "/fine/secret") as descriptor:
                assert identity(descriptor).size == 2
            with pytest.raises(OSError), way(root, "/fine/secret", links=False):
                pass
            with way(root, "/fine/../real/./secret", links=True) as descriptor:
                assert identity(descriptor).size == 2


def test_a_link_put_there_after_the_look_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without openat2 links are resolved before; what was a folder then may be a link by now."""
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "a" / "file").write_bytes(b"ours")
    (tmp_path / "file").write_bytes(b"of another root")

    def swapped(root: str, path: str, *, follow: bool = True) -> tuple[str, bool]:
        found = resolved(root, path, follow=follow)
        with suppress(FileNotFoundError):
            (tmp_path / "root" / "a").rename(tmp_path / "root" / "b")
        with suppress(FileExistsError):
            (tmp_path / "root" / "a").symlink_to(tmp_path)
        return found

    from zombiescope.places.in_root import resolved

    monkeypatch.setattr(opening, "resolved", swapped)
    with place(str(tmp_path / "root")) as root, pytest.raises(OSError), walked(root, "/a/file"):
        pass


def test_without_proc_a_type_is_asked_before_and_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_BY_NUMBER", str(tmp_path / "absent"))
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_bytes(b"x")
    os.close(regular(str(tmp_path / "file")))
    os.close(regular_inside(str(tmp_path), "/file"))
    with pytest.raises(OSError, match="not a regular file"):
        regular(str(tmp_path / "fifo"))


def test_names_are_bounded(tmp_path: Path) -> None:
    for number in range(11):
        (tmp_path / str(number)).touch()
    assert names(str(tmp_path), 11)[1] is False and len(names(str(tmp_path), 11)[0]) == 11
    assert names(str(tmp_path), 10)[1] is True and len(names(str(tmp_path), 10)[0]) == 10
