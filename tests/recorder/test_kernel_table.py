"""The kernel's names of a boot, kept beside the segments: a head that was never settled has them on any machine."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from subprocess import DEVNULL

import pytest
from tests.conftest import CANNOT
from tests.recorder.heads import AHEAD, META, SECOND, ran
from tests.recorder.test_settle_stacks import IN_KERNEL, rows
from tests.waiting import until

from zombiescope.core import Host
from zombiescope.naming.kernel_names import KernelOnce
from zombiescope.recorder import kernel_table
from zombiescope.recorder.folder import Folder
from zombiescope.recorder.head import RING, HeadWriter
from zombiescope.recorder.kernel_table import KernelTable, saved
from zombiescope.recorder.replay import opened
from zombiescope.recorder.settle import settled

BOOT, OTHER = "a1b2c3d4-0000-4000-8000-000000000001", "a1b2c3d4-0000-4000-8000-000000000002"
TABLE = "".join(
    f"{at:016x} T {name}\n" for at, name in ((0, "fixed"), (IN_KERNEL - 16, "walk_here"), (IN_KERNEL + 4096, "_etext"))
).encode()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def kept(path: Path, boot: str = BOOT, most_bytes: int = 1 << 30) -> list[str]:
    clock = Clock()
    folder = Folder(str(path))
    try:
        table = KernelTable(folder, boot, most_bytes, clock)
        table.tend()
        assert not list(path.glob("kallsyms*")), "a recording of seconds is settled when it ends"
        clock.now = kernel_table.AFTER + 1
        table.tend()
    finally:
        folder.close()
    return sorted(it.name for it in path.glob("kallsyms*"))


def head(boot: str) -> bytes:
    parts: list[bytes] = []
    writer = HeadWriter(parts.extend)
    writer.clock(0, AHEAD)
    writer.source({"boot": boot}, 0)
    ring = writer.source({"ring": 0, "event": "cpu-clock", "hz": 100, "cgroup": True}, 0)
    writer.put(RING, ring, SECOND, ran(500, 0.5, kernel=[IN_KERNEL]))
    writer.flush()
    return b"".join(parts)


def frames(boot: str, folder: Path) -> list[str]:
    found = settled(head(boot), META, kernel=KernelOnce(lambda boot: saved(str(folder), boot)))
    (sample,) = rows(found)
    names: list[str] = sample["frames"]
    return names


def test_it_is_kept_once_a_boot_private_and_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_bytes(TABLE)
    monkeypatch.setattr(kernel_table, "SOURCE", str(tmp_path / "table"))
    path = tmp_path / "rec"
    assert kept(path) == [f"kallsyms-{BOOT}.gz"] and saved(str(path), BOOT) == TABLE
    assert stat.S_IMODE((path / f"kallsyms-{BOOT}.gz").stat().st_mode) == 0o600
    before = (path / f"kallsyms-{BOOT}.gz").stat().st_mtime_ns
    (path / f"kallsyms-{BOOT}.gz").rename(path / "away")
    (path / "away").rename(path / f"kallsyms-{BOOT}.gz")
    assert frames(BOOT, path) == ["walk_here"] and frames(OTHER, path) != ["walk_here"]
    clock = Clock()
    folder = Folder(str(path))
    table = KernelTable(folder, BOOT, 1 << 30, clock)
    clock.now = 100.0
    table.tend()
    folder.close()
    assert (path / f"kallsyms-{BOOT}.gz").stat().st_mtime_ns == before, "it is there"


def test_those_of_the_last_boots_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_bytes(TABLE)
    monkeypatch.setattr(kernel_table, "SOURCE", str(tmp_path / "table"))
    path = tmp_path / "rec"
    for boot in range(6):
        clock = Clock()
        folder = Folder(str(path))
        table = KernelTable(folder, f"{boot:08x}", 1 << 30, clock)
        clock.now = 100.0
        table.tend()
        folder.close()
        os.utime(path / f"kallsyms-{boot:08x}.gz", (boot, boot))
    assert sorted(it.name for it in path.glob("kallsyms*")) == [f"kallsyms-{boot:08x}.gz" for boot in (3, 4, 5)]


def test_hidden_addresses_and_small_recordings_keep_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_bytes(b"".join(b"%016x T name_%d\n" % (0, it) for it in range(100)))
    monkeypatch.setattr(kernel_table, "SOURCE", str(tmp_path / "table"))
    assert not kept(tmp_path / "hidden")
    (tmp_path / "table").write_bytes(TABLE)
    assert not kept(tmp_path / "small", most_bytes=1 << 20)
    assert not kept(tmp_path / "odd", boot="../../etc")


@pytest.mark.parametrize(
    "content",
    [b"", b"not packed", gzip.compress(b"no table at all"), gzip.compress(TABLE)[:-9], gzip.compress(bytes(80 << 20))],
    ids=["empty", "not packed", "no table", "torn", "a bomb"],
)
def test_what_a_stranger_put_there_costs_names_only(tmp_path: Path, content: bytes) -> None:
    (tmp_path / f"kallsyms-{BOOT}.gz").write_bytes(content)
    assert "walk_here" not in frames(BOOT, tmp_path)


def test_a_link_or_a_fifo_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "table.gz").write_bytes(gzip.compress(TABLE))
    (tmp_path / f"kallsyms-{BOOT}.gz").symlink_to(tmp_path / "table.gz")
    os.mkfifo(tmp_path / f"kallsyms-{OTHER}.gz")
    assert saved(str(tmp_path), BOOT) is None and saved(str(tmp_path), OTHER) is None


def test_a_head_of_an_earlier_boot_is_not_named_by_the_kernel_of_now() -> None:
    """The machine was started again, and its recorder writes into the same folder: meta.json says the new boot."""
    here = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    found = settled(head(OTHER), {**META, "boot_id": here}, host=Host())
    assert [it["value"] for it in found.table("series").to_pylist() if it["what"] == "kernel_symbols"] == [0.0]


RECORDER = """
import sys
from zombiescope.__main__ import main
from zombiescope.recorder import kernel_table
kernel_table.AFTER = 1.0
sys.exit(main(["record", sys.argv[1], "--for", "60s", "--hz", "99"]))
"""


@pytest.mark.e2e
@pytest.mark.beside
def test_a_recorder_that_is_killed_leaves_a_head_with_names_for_another_machine(tmp_path: Path) -> None:
    path, busy = tmp_path / "rec", subprocess.Popen(["dd", "if=/dev/zero", "of=/dev/null", "bs=64k"], stderr=DEVNULL)
    recorder = subprocess.Popen([sys.executable, "-c", RECORDER, str(path)], stderr=DEVNULL)
    try:
        until(lambda: list(path.glob("kallsyms-*.gz")) or recorder.poll() is not None)
        time.sleep(3)  # some seconds of samples
    finally:
        recorder.kill()
        recorder.wait()
        busy.kill()
        busy.wait()
    if not list(path.glob("kallsyms-*.gz")):
        pytest.skip(CANNOT + "sample, or read the kernel's addresses")
    for it in (path, *path.rglob("*")):
        os.chown(it, 12_345, 12_345)  # as what was copied from elsewhere: this machine is not asked
    timeline = opened(str(path)).timeline()
    assert timeline.series("kernel_symbols").latest.value == 1
    frames = timeline.samples(wanted=lambda its: "read_zero" in its or "ksys_read" in its or "iov_iter_zero" in its)
    assert len(frames), "dd reads zeros in the kernel"
