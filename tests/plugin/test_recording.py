"""A recording copied off a node: what the pod's side packs, and what a pod that lies can make of this machine."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from zombiescope.core import UserError
from zombiescope.plugin import recording
from zombiescope.plugin.recording import pack, received


def archive(*entries: tuple[str, bytes] | tarfile.TarInfo) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for it in entries:
            if isinstance(it, tarfile.TarInfo):
                made.addfile(it)
                continue
            entry = tarfile.TarInfo(it[0])
            entry.size = len(it[1])
            made.addfile(entry, io.BytesIO(it[1]))
    out.seek(0)
    return out


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def test_what_is_packed_arrives(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "1794775736").mkdir(parents=True)
    (source / "meta.json").write_text("{}")
    (source / "1794775736" / "head").write_bytes(bytes(range(256)) * 1000)
    os.mkfifo(source / "waits")
    (source / "secret").symlink_to("/etc/shadow")
    _, *argv = pack(str(source))
    with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert received(running.stdout, tmp_path / "copy") == 256_002
    files = {str(it.relative_to(tmp_path / "copy")): it for it in (tmp_path / "copy").rglob("*") if it.is_file()}
    assert set(files) == {"meta.json", "1794775736/head"}
    assert files["1794775736/head"].read_bytes() == (source / "1794775736" / "head").read_bytes()
    assert all(stat.S_IMODE(it.stat().st_mode) == 0o600 for it in files.values())
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "entry",
    [
        ("../out", b"x"),
        ("/etc/out", b"x"),
        ("a/../../out", b"x"),
        (".hidden", b"x"),
        ("a\nb", b"x"),
        ("\x1b[31m", b"x"),
        ("a/b/c/d/e", b"x"),
        special("link", tarfile.SYMTYPE, "/etc/passwd"),
        special("hard", tarfile.LNKTYPE, "meta.json"),
        special("device", tarfile.CHRTYPE),
        special("waits", tarfile.FIFOTYPE),
    ],
)
def test_what_no_recording_has_is_refused(entry: tuple[str, bytes] | tarfile.TarInfo, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="which no recording has") as caught:
        received(archive(("meta.json", b"{}"), entry), tmp_path / "copy")
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == [], "nothing is left"


def test_twice_the_same_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="file exists"):
        received(archive(("a", b"1"), ("a", b"2")), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"error: no such container\n", b"\0" * 4096])
def test_no_archive_is_said(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"did not come whole|sent no recording"):
        received(io.BytesIO(content), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_cut_off_is_not_kept(tmp_path: Path) -> None:
    whole = archive(("head", b"x" * 100_000)).getvalue()
    with pytest.raises(UserError, match="did not come whole"):
        received(io.BytesIO(whole[:50_000]), tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_FILES", 2)
    assert received(archive(("a", b"1"), ("b", b"2")), tmp_path / "two") == 2
    with pytest.raises(UserError, match="more than"):
        received(archive(("a", b"1"), ("b", b"2"), ("c", b"3")), tmp_path / "three")
    monkeypatch.setattr(recording, "MOST_BYTES", 3)
    with pytest.raises(UserError, match="more than"):
        received(archive(("a", b"1234")), tmp_path / "four")


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "copy").symlink_to("/nowhere")
    with pytest.raises(UserError, match="there already"):
        received(archive(("a", b"1")), tmp_path / "copy")
    with pytest.raises(UserError, match="no such file"):
        received(archive(("a", b"1")), tmp_path / "no" / "such" / "copy")
