"""A root as a tar: unpacked as far as rules read it, from any packing; nothing in it leads out, hangs or fills up."""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gate.images import ECS, ETC, LIB, clean, judged, member, packed, sick

from zombiescope.core import Host, Unreadable, UserError
from zombiescope.gate import _unpacked
from zombiescope.gate._unpacked import MOST_HEADER, _Forwards, root_folder


def states(folder: Path) -> dict[str, tuple[str, list[str]]]:
    return {it.rule: (it.state, [one.says for one in it.objections]) for it in judged(folder).values()}


@pytest.mark.parametrize("packing", ["", "gz", "xz", "bz2", "zst"])
@pytest.mark.parametrize("make", [clean, sick])
def test_a_tar_is_judged_as_its_folder_is(tmp_path: Path, packing: str, make: Callable[[Path], Path]) -> None:
    root = make(tmp_path / "root")
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/large").write_bytes(bytes(1 << 20))
    tar = tmp_path / "image"  # told by its content, not by its name
    with tarfile.open(tar, "w" if packing in ("", "zst") else f"w:{packing}") as out:  # type: ignore[call-overload]
        out.add(root, ".")
    if packing == "zst":
        plain = tar.read_bytes()
        with pyarrow.CompressedOutputStream(str(tar), "zstd") as stream:
            stream.write(plain)
    with root_folder(str(tar)) as folder:
        assert states(Path(folder)) == states(root)
        assert not os.path.exists(f"{folder}/usr/bin"), "what no rule reads is not unpacked"
        assert os.path.getsize(f"{folder}/boot/{os.listdir(f'{folder}/boot')[0]}") == 0
    assert not os.path.exists(folder)


def test_folders_need_no_entries_of_their_own_and_names_in_front_do_not_matter(tmp_path: Path) -> None:
    for prefix in ("", "./", "/", "../../"):
        members = [
            member(f"{prefix}usr/lib/modules/5.4.1/kernel/a/b.ko"),
            member(f"{prefix}{LIB}/a.service", b"[Unit]\n"),
        ]
        with root_folder(str(packed(tmp_path / "t.tar", members))) as folder:
            assert os.listdir(f"{folder}/usr/lib/modules") == ["5.4.1"] and os.path.isfile(f"{folder}/{LIB}/a.service")


def test_nothing_is_written_outside_nor_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    members = [
        member("etc/evil", kind=tarfile.SYMTYPE, to=str(outside)),
        member("etc/evil/through", b"x"),
        member("etc/evil/further", kind=tarfile.SYMTYPE, to="y"),
        member("etc/up", kind=tarfile.SYMTYPE, to="../../../../../../.." + str(outside)),
        member("etc/up/there", kind=tarfile.LNKTYPE, to="etc/evil/through"),
        member("../../../../../../.." + str(outside) + "/climbed", b"x"),
        member("etc/passwd", kind=tarfile.LNKTYPE, to="/etc/passwd"),
        member("etc/shadow", kind=tarfile.LNKTYPE, to="../../../../../etc/shadow"),
    ]
    with root_folder(str(packed(tmp_path / "t.tar", members))) as folder:
        assert not list(outside.iterdir())
        assert os.listdir(f"{folder}/etc/evil") == ["further", "through"] or os.path.isdir(f"{folder}/etc/evil")
        assert not os.path.exists(f"{folder}/etc/passwd"), "a hard link names a file of the tar, or nothing"
        host = Host(folder, live=False)
        assert host.read("/etc/up/there") == "x"


def test_devices_and_fifos_are_no_files_and_what_no_path_can_say_is_left_out(tmp_path: Path) -> None:
    members = [
        member(f"{LIB}/a.service", ECS.encode()),
        member(f"{LIB}/b.service", kind=tarfile.FIFOTYPE),
        member(f"{LIB}/c.service", kind=tarfile.CHRTYPE),
        member(f"{LIB}/d.service", kind=tarfile.BLKTYPE),
        member("etc/" + "d/" * 10_000 + "x", b"x"),
        member("etc/" + "n" * 300, b"x"),
        member(f"{ETC}/\x1b[31m\udcff\n.service", ECS.encode()),
        member("etc/self", kind=tarfile.SYMTYPE, to="self"),
    ]
    with root_folder(str(packed(tmp_path / "t.tar", members))) as folder:
        host = Host(folder, live=False)
        for name in "bcd":
            with pytest.raises(Unreadable, match="not a regular file"):
                host.read(f"/{LIB}/{name}.service")
        assert sorted(os.listdir(f"{folder}/{LIB}")) == [f"{name}.service" for name in "abcd"]
        assert sorted(os.listdir(f"{folder}/etc")) == ["self", "systemd"]
        assert os.listdir(f"{folder}/{ETC}") == ["\x1b[31m\udcff\n.service"]


def test_of_two_with_one_name_the_last_counts(tmp_path: Path) -> None:
    link = member("etc/b", kind=tarfile.SYMTYPE, to="a")
    members = [member("etc/a", b"old"), member("etc/a", b"new"), link, member("etc/b", b"file")]
    members += [member("etc/c", b"file"), member("etc/c", kind=tarfile.SYMTYPE, to="a")]
    with root_folder(str(packed(tmp_path / "t.tar", members))) as folder:
        assert Path(folder, "etc/a").read_text() == "new" and Path(folder, "etc/b").read_text() == "file"
        assert os.readlink(f"{folder}/etc/c") == "a"


def test_a_file_too_large_to_read_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_unpacked, "MOST_FILE", 1000)
    members = [member("etc/ecs/ecs.config", b"x" * 5000), member("etc/after", b"y")]
    with root_folder(str(packed(tmp_path / "t.tar", members))) as folder:
        host = Host(folder, live=False)
        with pytest.raises(Unreadable, match="larger than"):
            host.read("/etc/ecs/ecs.config")
        assert host.read("/etc/after") == "y" and os.stat(f"{folder}/etc/ecs/ecs.config").st_blocks == 0


@pytest.mark.parametrize(
    ("limit", "value", "why"),
    [
        ("MOST_MEMBERS", 2, "more than 2 members"),
        ("MOST_BYTES", 10, "10 B"),
        ("MOST_KEPT", 10, "10 B of configuration"),
    ],
)
def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, why: str) -> None:
    monkeypatch.setattr(_unpacked, limit, value)
    tar = packed(tmp_path / "t.tar", [member(f"etc/{name}", b"12345678") for name in "abc"])
    with pytest.raises(UserError, match=why), root_folder(str(tar)):
        pass


def pax(size: int) -> bytes:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, size
    return info.tobuf()


@pytest.mark.parametrize(
    "content",
    [
        pax(1 << 40),
        pax(512) + bytes(512) + bytes(1024),
        b"".join(pax(0) for _ in range(3000)),
        member("etc/a", b"", size=1 << 50)[0].tobuf(),
        member("etc/a", b"", size=5000)[0].tobuf() + b"short",
        b"\x1f\x8b" + b"nonsense",
        b"\xfd7zXZ\x00nonsense",
        b"\x28\xb5\x2f\xfdnonsense",
        b"BZhnonsense",
        member("etc/a")[0].tobuf(),
        member("etc/a")[0].tobuf() + b"x" * 512 + member("etc/b")[0].tobuf() + bytes(1024),
        b"no tar at all" * 100,
        b"PK\x03\x04" + bytes(2000),
    ],
    ids=[
        "huge header",
        "bad pax",
        "headers for ever",
        "an exabyte",
        "cut short",
        "gz",
        "xz",
        "zst",
        "bz2",
        "no end",
        "damaged within",
        "text",
        "zip",
    ],
)
def test_what_is_no_tar_is_a_mistake_and_costs_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.tar").write_bytes(content)
    started = time.process_time()
    with pytest.raises(UserError, match=r"t\.tar"), root_folder(str(tmp_path / "t.tar")):
        pass
    assert time.process_time() - started < 10


def test_what_is_neither_folder_nor_file_is_a_mistake(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, why in {
        tmp_path / "fifo": "not a folder or a tar file",
        tmp_path / "none": "no such file or folder",
        Path("/dev/zero"): "not a folder or a tar file",
    }.items():
        with pytest.raises(UserError, match=why), root_folder(str(path)):
            pass


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_tar_is_read_or_refused_and_never_more(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in (
            member("etc/" + "n" * 120, b"abc"),
            member("etc/l", kind=tarfile.SYMTYPE, to="/x"),
            member(f"{LIB}/a.service", ECS.encode() * 20),
        ):
            info.mtime = 1.5
            tar.addfile(info, io.BytesIO(content))
    bytes_ = bytearray(made.getvalue()[:6000])
    for _ in range(data.draw(st.integers(1, 6))):
        bytes_[data.draw(st.integers(0, len(bytes_) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.tar"
    path.write_bytes(bytes_[: data.draw(st.integers(0, len(bytes_)))])
    try:
        with root_folder(str(path)) as folder:
            assert set(os.listdir(folder)) <= {"etc", "usr", "lib", "boot", "efi", "run", "var", "opt"}
    except UserError as error:
        assert "damaged.tar" in str(error) or "tar" in str(error)


def test_exactly_as_much_as_is_allowed_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in {"MOST_MEMBERS": 3, "MOST_BYTES": 24, "MOST_KEPT": 24, "MOST_FILE": 8}.items():
        monkeypatch.setattr(_unpacked, limit, value)
    tar = packed(tmp_path / "t.tar", [member(f"etc/{name}", b"12345678") for name in "abc"])
    with root_folder(str(tar)) as folder:
        assert {it: Path(folder, "etc", it).read_bytes() for it in "abc"} == dict.fromkeys("abc", b"12345678")


def test_headers_are_read_within_their_limit_and_only_forwards() -> None:
    stream = _Forwards(io.BytesIO(bytes(3 * MOST_HEADER)))
    assert len(stream.read(MOST_HEADER)) == MOST_HEADER and stream.tell() == MOST_HEADER
    for refused in (lambda: stream.read(1), lambda: stream.read(), lambda: stream.seek(MOST_HEADER - 1)):
        with pytest.raises(tarfile.ReadError):
            refused()
    assert stream.seek(MOST_HEADER) == MOST_HEADER and stream.seek(3 * MOST_HEADER - 1) == 3 * MOST_HEADER - 1
    assert stream.seek(9 * MOST_HEADER) == 3 * MOST_HEADER, "there is no more"
    with pytest.raises(tarfile.ReadError):
        _Forwards(io.BytesIO(bytes(9))).read()
    with pytest.raises(tarfile.ReadError):
        stream.seek(9 * MOST_HEADER, os.SEEK_CUR)


def test_links_on_the_way_to_what_is_read_are_kept(tmp_path: Path) -> None:
    members = [
        member("lib", kind=tarfile.SYMTYPE, to="usr/lib"),
        member("bin", kind=tarfile.SYMTYPE, to="usr/bin"),
        member(f"{LIB}/a.service", b"[Unit]\n"),
        member("usr/local/lib", kind=tarfile.SYMTYPE, to="../lib"),
    ]
    with root_folder(str(packed(tmp_path / "t.tar", members))) as folder:
        assert Host(folder, live=False).read("/lib/systemd/system/a.service") == "[Unit]\n"
        assert sorted(os.listdir(folder)) == ["lib", "usr"]
        assert os.readlink(f"{folder}/usr/local/lib") == "../lib"
