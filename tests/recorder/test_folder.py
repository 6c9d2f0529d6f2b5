"""The folder of a recording: private, its own, and never larger than it may be, whatever others have put there."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT, Run
from tests.loop_disk import loop_disk
from tests.recorder.test_replay import META, T0, Clock

from zombiescope.core import UserError
from zombiescope.recorder.head import HeadWriter
from zombiescope.recorder.heads import MOST_TROUBLES, Heads, _after
from zombiescope.recorder.replay import opened
from zombiescope.recorder.room import FIRST_RETRY

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked whose folder it is: run the tests as root")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def heads(folder: Path, *, most_bytes: int = 10**9, hours: float = 1, clock: Clock) -> Heads:
    return Heads(str(folder), META, hours=hours, most_bytes=most_bytes, monotonic=clock, settles=False)


def fill(disk: Heads, clock: Clock, segments: int, rows: int = 150) -> None:
    """So many heads more, each of some KB that do not compress."""
    for _ in range(segments):
        fill_second(disk, clock, number(disk) + 1, rows)
        clock.passed += 121
        disk.end()


def fill_second(disk: Heads, clock: Clock, head: int, rows: int) -> None:
    parts: list[bytes] = []
    writer = HeadWriter(parts.extend)
    at = int(clock.passed * 1e9)
    writer.clock(at, int(T0 * 1e9))
    writer.fetched(writer.source({"probe": "stat"}, at), at, os.urandom(48 * rows))
    writer.flush()
    disk.write(head, parts, T0 + clock.passed)


def number(disk: Heads) -> int:
    return disk._number


def modes(folder: Path) -> dict[str, str]:
    return {str(it.relative_to(folder)): oct(stat.S_IMODE(it.lstat().st_mode)) for it in folder.rglob("*")}


@pytest.mark.parametrize("written", range(9))
def test_what_is_left_after_a_write_that_took_a_part(written: int) -> None:
    pieces = [b"ab", b"", b"cde", b"fgh"]
    assert b"".join(_after(pieces, written)) == b"abcdefgh"[written:]
    assert all(_after(pieces, written)), "an empty piece would be written for ever"


def test_the_oldest_goes_first_by_age_and_by_size(tmp_path: Path) -> None:
    for name, limits, kept in (("age", {"hours": 0.1}, 3), ("size", {"most_bytes": 60_000}, 7)):
        clock = Clock()
        disk = heads(tmp_path / name, clock=clock, **limits)
        fill(disk, clock, 15)
        assert disk.stored <= 60_000 and disk.dropped == 15 - kept
        disk.close()
        segments = opened(str(tmp_path / name)).segments
        assert len(segments) == kept and float(segments[-1]) > T0 + 1500


def test_two_recorders_in_one_folder_are_refused(tmp_path: Path) -> None:
    first = heads(tmp_path, clock=Clock())
    with pytest.raises(UserError, match="another recorder writes here"):
        heads(tmp_path, clock=Clock())
    first.close()
    heads(tmp_path, clock=Clock()).close()


@pytest.mark.parametrize("mask", [0o000, 0o022])
def test_nobody_else_can_read_any_of_it(tmp_path: Path, mask: int) -> None:
    folder, clock = tmp_path / "new" / "rec", Clock()
    with umask(mask):
        disk = heads(folder, clock=clock)
        fill(disk, clock, 1)
        fill_second(disk, clock, 7, 1)
        found = modes(folder)
        disk.close()
    assert oct(stat.S_IMODE(folder.stat().st_mode)) == "0o700"
    assert any("head" in name for name in found) and "lock" in found and "meta.json" in found
    for name, mode in (found | modes(folder)).items():
        assert mode == ("0o700" if name.isdecimal() else "0o600"), name


def test_a_real_recording_is_private_and_has_no_kernel_addresses(tmp_path: Path, zombiescope: Run) -> None:
    with umask(0):
        zombiescope("record", str(tmp_path / "a" / "rec"), "--for", "1s", expect=0)
    assert not [name for name, mode in modes(tmp_path).items() if mode not in ("0o700", "0o600")]
    assert not (tmp_path / "a" / "rec" / "kallsyms").exists()
    (tmp_path / "a" / "rec" / "kallsyms").write_bytes(b"as earlier versions wrote it")
    zombiescope("info", str(tmp_path / "a" / "rec"), expect=0)


@as_root
def test_root_records_only_into_a_folder_of_its_own(tmp_path: Path, zombiescope: Run) -> None:
    tmp_path.chmod(0o711)
    theirs, open_to_all, link = tmp_path / "theirs", tmp_path / "open", tmp_path / "link"
    for folder in (theirs, open_to_all):
        folder.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    open_to_all.chmod(0o1777)
    link.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    for folder, says in (
        (theirs, f"belongs to nobody (uid {NOBODY}), not to root: give another folder, or: chown root:"),
        (open_to_all, "others can write to it (mode 1777): give a folder in it, or: chmod 700"),
        (link, "a symbolic link, which is not followed: give the folder that it leads to"),
        (Path(f"{link}/"), "a symbolic link"),
    ):
        done = zombiescope("record", f"{folder}/", "--for", "1s", expect=2)
        assert says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert not list(folder.iterdir())


def test_what_is_planted_in_it_is_never_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "deep").mkdir(parents=True)
    for name in ("series.arrows", "deep/file", "file"):
        (precious / name).write_text("keep me")
    folder, clock = tmp_path / "rec", Clock()
    folder.mkdir(mode=0o700)
    (folder / "1000000000").symlink_to(precious)  # the oldest segment
    (folder / "1000000001").mkdir()
    (folder / "1000000001" / "series.arrows").symlink_to(precious / "series.arrows")
    (folder / "meta.json").symlink_to(precious / "file")
    (folder / "meta.json.part").symlink_to(precious / "file")
    disk = heads(folder, most_bytes=30_000, clock=clock)
    fill(disk, clock, 12)
    disk.close()
    assert disk.dropped > 5 and not (folder / "1000000001").exists()
    assert [it.read_text() for it in sorted(precious.rglob("*")) if it.is_file()] == ["keep me"] * 3
    assert (folder / "1000000000").is_symlink() and not (folder / "meta.json").is_symlink()


@pytest.mark.parametrize("name", ["lock", "meta.json"])
def test_what_stands_in_its_way_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match=name):
        heads(tmp_path, clock=Clock())
    (tmp_path / name).rmdir()
    if name == "lock":
        os.mkfifo(tmp_path / name)
        with pytest.raises(UserError, match="not a regular file"):
            heads(tmp_path, clock=Clock())


@pytest.mark.parametrize("stray", ["0000000001", "9999999999"])
def test_strays_with_names_like_segments_are_left_alone(tmp_path: Path, stray: str) -> None:
    (tmp_path / "1111111111").write_text("a file")
    (tmp_path / stray).mkdir()
    (tmp_path / stray / "thesis.txt").write_text("ten years of work")
    clock = Clock()
    disk = heads(tmp_path, most_bytes=30_000, clock=clock)
    fill(disk, clock, 40)
    assert disk.dropped > 30 and disk.stored < 60_000 and not disk.full
    if stray < "1":
        assert ["it holds 'thesis.txt', which is not part of a recording" in it for it in disk.troubles] == [True]
    disk.close()
    assert (tmp_path / stray / "thesis.txt").exists() and (tmp_path / "1111111111").exists()
    assert not [it for it in tmp_path.iterdir() if it.is_dir() and len(it.name) != 10]


def test_what_cannot_be_removed_is_tried_again_later_and_later(tmp_path: Path) -> None:
    clock = Clock()
    disk = heads(tmp_path, most_bytes=30_000, clock=clock)
    fill(disk, clock, 1)
    oldest = disk.segments()[0]
    (tmp_path / oldest / "stray").write_text("")
    fill(disk, clock, 10)
    assert oldest in disk.segments() and len(disk.troubles) == 1
    (tmp_path / oldest / "stray").unlink()
    clock.passed += FIRST_RETRY * 64
    fill(disk, clock, 2)
    assert oldest not in disk.segments() and len(disk.troubles) == 1 <= MOST_TROUBLES
    disk.close()


def test_if_there_can_be_no_room_it_says_so(tmp_path: Path) -> None:
    clock = Clock()
    disk = heads(tmp_path, most_bytes=30_000, clock=clock)
    sizes = []
    for _ in range(12):
        fill(disk, clock, 1)
        for segment in disk.segments():
            (tmp_path / segment / "stray").write_text("")
        sizes.append(disk.stored)
        if disk.full:
            break
    assert "cannot be brought below --max-bytes" in disk.full and len(sizes) < 12
    assert sizes[-1] < 30_000 + 2 * sizes[0], "one segment more than the limit at the most"
    disk.close()


@pytest.mark.kernel
def test_a_segment_that_is_immutable_costs_one_line_and_no_cpu(tmp_path: Path) -> None:
    clock = Clock()
    with loop_disk(tmp_path) as point:
        folder = point / "rec"
        disk = heads(folder, most_bytes=30_000, clock=clock)
        fill(disk, clock, 2)
        oldest = folder / disk.segments()[0]
        if subprocess.run(["chattr", "+i", str(oldest)], check=False).returncode:
            disk.close()
            pytest.skip(f"{CANNOT}make a file immutable")
        started = time.process_time()
        try:
            fill(disk, clock, 12)
            assert time.process_time() - started < 5, "it does not try for ever"
            assert oldest.exists() and len(disk.troubles) == 1 and disk.stored < 45_000
        finally:
            subprocess.run(["chattr", "-i", str(oldest)], check=True)
        clock.passed += 7200
        fill(disk, clock, 2)
        assert not oldest.exists()
        disk.close()


@pytest.mark.kernel
def test_a_disk_that_became_read_only_costs_a_few_lines_and_no_cpu(tmp_path: Path) -> None:
    """As the kernel makes it after an error of the disk, with files open for writing."""
    clock = Clock()
    with loop_disk(tmp_path) as point:
        disk = heads(point / "rec", most_bytes=30_000, clock=clock)
        fill(disk, clock, 3)
        device = subprocess.run(["findmnt", "-no", "SOURCE", str(point)], capture_output=True, text=True, check=True)
        trigger = Path("/sys/fs/ext4") / Path(device.stdout.strip()).name / "trigger_fs_error"
        if not trigger.exists():
            disk.close()
            pytest.skip(f"{CANNOT}make a disk fail: no {trigger}")
        subprocess.run(["mount", "-o", "remount,errors=remount-ro", str(point)], check=True)
        trigger.write_text("a test")
        started, before = time.process_time(), disk.stored
        fill(disk, clock, 12)
        assert time.process_time() - started < 5, "it does not try for ever"
        assert 1 <= len(disk.troubles) <= 3 and "Read-only file system" in disk.troubles[0]
        assert disk.stored == before
        disk.close()
        assert len(opened(str(point / "rec")).segments) == 3


@pytest.mark.kernel
@pytest.mark.beside
def test_a_recorder_whose_room_is_taken_for_good_ends_with_one_line(tmp_path: Path, zombiescope: Run) -> None:
    with loop_disk(tmp_path) as point:
        folder, clock = point / "rec", Clock()
        disk = heads(folder, most_bytes=10**9, clock=clock)
        fill(disk, clock, 4, rows=40_000)
        disk.close()
        segments = [str(folder / name) for name in opened(str(folder)).segments]
        if subprocess.run(["chattr", "+i", *segments], check=False).returncode:
            pytest.skip(f"{CANNOT}make a file immutable")
        try:
            done = zombiescope("record", str(folder), "--max-bytes", "1M", "--for", "1s", "--hz", "0", expect=2)
        finally:
            subprocess.run(["chattr", "-i", *segments], check=True)
        said = [line for line in done.stderr.splitlines() if "cannot be removed" in line]
        assert len(said) == 2 and "cannot be brought below --max-bytes" in done.stderr, done.stderr
        assert "operation not permitted" in done.stderr
