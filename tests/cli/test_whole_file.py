"""What -o writes: a file that is there whole or not at all; a device or a pipe stays what it is."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.cli._whole_file import whole_file
from zombiescope.core import UserError

FOLDED = "main;work 3\nmain;rest 1\n"


@pytest.fixture
def profile(tmp_path: Path) -> str:
    (tmp_path / "a.folded").write_text(FOLDED)
    return str(tmp_path / "a.folded")


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a device: run as root")
@pytest.mark.parametrize("verb", ["flame", "gate"])
def test_a_device_is_written_to_and_stays_a_device(zombiescope: Run, tmp_path: Path, profile: str, verb: str) -> None:
    null = tmp_path / "null"
    os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    (tmp_path / "root/etc").mkdir(parents=True)
    argv = {"flame": ("flame", profile, "--format", "folded"), "gate": ("gate", "--root", str(tmp_path / "root"))}[verb]
    done = zombiescope(*argv, "-o", str(null))
    if not stat.S_ISCHR(null.lstat().st_mode):
        pytest.fail(f"the device was replaced: {done.stderr}")
    assert done.returncode in (0, 1, 3) and "cannot be written" not in done.stderr
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_pipe_gets_what_is_written(zombiescope: Run, tmp_path: Path, profile: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    zombiescope("flame", profile, "--format", "folded", "-o", str(pipe), expect=0)
    reader.join(10)
    assert "main;work" in got[0] and stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_link_stays_and_its_file_is_new(zombiescope: Run, tmp_path: Path, profile: str) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    zombiescope("flame", profile, "--format", "folded", "-o", str(tmp_path / "link"), expect=0)
    assert (tmp_path / "link").is_symlink() and "main;work" in (tmp_path / "real").read_text()


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("old")
    with pytest.raises(UserError, match="no space left"), whole_file(str(tmp_path / "kept")) as out:
        out.write(b"half")
        raise OSError(28, "No space left on device")
    assert (tmp_path / "kept").read_text() == "old" and os.listdir(tmp_path) == ["kept"]
    with pytest.raises(UserError, match="no such file"), whole_file(str(tmp_path / "none" / "x")):
        pass
    with pytest.raises(UserError, match="is a directory"), whole_file(str(tmp_path)):
        pass
