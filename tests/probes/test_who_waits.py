"""Who waits for a FUSE daemon or a frozen file system, who writes, and who holds a BPF program: on the real machine."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.probes.machine import AT
from tests.waiting import until, waits

from zombiescope.core import Blind, Host, Reading, Unparsable, UserError
from zombiescope.lab._file_systems import file_system_user, frozen, fuse_mount
from zombiescope.lab._hook import hook_user
from zombiescope.lab._loop_disk import loop_disk
from zombiescope.lab._pipe import unread_pipe
from zombiescope.lab._scenario import missing
from zombiescope.probes import bpf_programs, fuse_connections, pipe_writers, process_io
from zombiescope.probes._asleep import Asleep
from zombiescope.probes._blocked_on import mount_written, parse_mount, parse_place

MOUNTS = "36 35 98:0 / /mnt/data rw,noatime master:1 - ext4 /dev/sdb rw\n37 35 0:9 / /proc rw - proc proc rw\n"
IO = "rchar: 3\nwchar: 4\nsyscr: 1\nsyscw: 1\nread_bytes: 12288\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"


def skip_without(*needs: str) -> None:
    if lacking := missing(needs):
        pytest.skip(CANNOT + "; ".join(lacking))


def test_the_mount_of_a_file() -> None:
    told = parse_mount(MOUNTS, "36")
    assert told is not None and told[0] == "/mnt/data (ext4 on /dev/sdb)"
    assert parse_mount(MOUNTS, "38") is parse_mount("", "36") is parse_mount("36\n", "36") is None


def test_where_the_node_has_a_device() -> None:
    rows = "30 1 8:16 /sub /bound rw - ext4 x rw\n31 1 8:16 / /a\\040b rw - ext4 x rw\n32 1 8:17 / /c rw - ext4 y rw\n"
    assert (parse_place(rows, "8:16"), parse_place(rows, "8:17"), parse_place(rows, "8:1")) == ("/a b", "/c", "")
    assert parse_place(rows.splitlines()[0], "8:16") == "/bound"


@pytest.mark.kernel
def test_who_writes_to_a_frozen_file_system_is_told_with_its_mount() -> None:
    skip_without("root")
    try:
        with loop_disk("frozen", 32 << 20) as (disk, folder), file_system_user("logs", f"{folder}/a", "0.01") as pid:
            assert mount_written(Host(), os.getpid()) is None, "it is not blocked"
            with frozen(folder):
                told = until(lambda: mount_written(Host(), pid))
                assert told is not None
                number = os.stat(folder).st_dev
                assert told.words == f"{folder} (ext4 on {disk})" and told.place == folder
                assert told.device == f"{os.major(number)}:{os.minor(number)}"
    except UserError as error:
        pytest.skip(CANNOT + str(error))


@pytest.mark.kernel
def test_who_waits_for_a_daemon_that_does_not_answer() -> None:
    skip_without("root", "fuse")
    waiters = Asleep("fuse_waiter_seconds", ("request_wait_answer",))
    with fuse_mount("waits", 60.0) as (folder, _daemon), file_system_user("looks", folder, "0.1") as pid:
        until(lambda: Path(f"/proc/{pid}/wchan").read_text() == "request_wait_answer")
        assert not list(waiters.told(Host(), 10.0)), "since when is not known at the first look"
        (told,) = [it for which, it in waiters.told(Host(), 15.0) if which == str(pid)]
        assert told.subject == f"process:zslab-looks[{pid}]" and told.value == 5.0
        found = list(fuse_connections.read(Host()))
        (waiting,) = [it for it in found if isinstance(it, Reading) and it.subject == f"mount:{folder}"]
        assert waiting.what == "fuse_requests_waiting" and waiting.value >= 1
        os.kill(_daemon, 9)  # what waits for it is told so, and ends


@pytest.mark.kernel
def test_who_holds_a_program() -> None:
    skip_without("root", "bpf")
    with hook_user("calls", "0.01") as pid, hook_user("hooks", str(pid), "1") as holder:
        found = [it for it in bpf_programs.read(Host()) if isinstance(it, Reading)]
        held = {it.subject: it.text for it in found if it.what == "bpf_program"}
        assert held["bpf:zslab_watch"] == f"zslab-hooks[{holder}]"


def test_what_a_process_read_and_wrote() -> None:
    assert process_io.parse(IO) == (12288, 8192)
    assert process_io.parse_pressure(PRESSURE) == 2.5
    for text in ("", "read_bytes: x\nwrite_bytes: 1\n", "read_bytes: 1\n"):
        with pytest.raises(Unparsable):
            process_io.parse(text)
    with pytest.raises(Unparsable):
        process_io.parse_pressure("some avg10=0.00\n")


def test_processes_are_asked_only_while_somebody_waits_for_a_disk(tmp_path: Path) -> None:
    def sample(waited: float, written: int) -> dict[str, float]:
        (tmp_path / "at").write_text(str(AT + waited))
        (tmp_path / "proc/pressure/io").write_text(PRESSURE.replace("2500000", str(round(waited * 1e6))))
        (tmp_path / "proc/7/io").write_text(IO.replace("8192", str(written)))
        found = [it for it in look() if isinstance(it, Reading)]
        return {it.what: it.value for it in found}

    for folder in ("proc/pressure", "proc/7"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/7/comm").write_text("dump\n")
    with process_io.watch(Host(str(tmp_path), live=False)) as look:
        assert sample(1.0, 100) == {"process_io_asked": 1}
        assert sample(1.2, 5_000)["process_written_bytes_total"] == 5_000


def test_without_fusectl_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "sys/fs/fuse/connections").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("61 27 0:52 / /mnt/s3 rw - fuse.s3fs s3fs rw\n")
    (blind,) = [it for it in fuse_connections.read(Host(str(tmp_path), live=False)) if isinstance(it, Blind)]
    assert blind.why.startswith("fusectl is not mounted")


@pytest.mark.kernel
def test_who_writes_to_a_pipe_that_nobody_reads() -> None:
    skip_without("root")
    with unread_pipe() as (writer, reader), pipe_writers.watch(Host()) as look:
        until(lambda: waits(writer))
        assert not [it for it in look() if isinstance(it, Reading) and it.subject.endswith(f"[{writer}]")]
        told = {it.what: it for it in look() if isinstance(it, Reading) and it.subject.endswith(f"[{writer}]")}
        assert 0 < told["pipe_writer_seconds"].value < 60
        assert told["pipe_reader"].text == f"zslab-neglects[{reader}]"


def _of_group(group: int, name: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            about = path.read_text()
            if f"({name})" in about and about.rpartition(")")[2].split()[2] == str(group):
                found.append(int(path.parent.name))
    return found


@pytest.mark.kernel
def test_a_pipeline_is_as_fast_as_the_slowest_of_it() -> None:
    skip_without("root")
    pipeline = ["sh", "-c", "cat /dev/zero | sleep 60"]
    with subprocess.Popen(pipeline, start_new_session=True, stdin=subprocess.DEVNULL) as shell:
        try:
            with pipe_writers.watch(Host()) as look:
                until(lambda: all(len(_of_group(shell.pid, name)) == 1 for name in ("cat", "sleep")))
                until(lambda: waits(*_of_group(shell.pid, "cat")))
                told = [it for _ in range(2) for it in look() if isinstance(it, Reading)]
            assert not [it for it in told if it.subject.startswith("process:cat[")]
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
