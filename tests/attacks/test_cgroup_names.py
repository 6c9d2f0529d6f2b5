"""Cgroups and processes whose names look like what the kernel writes: they forge nobody's births, deaths or owners."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.naming.programs import needs_root
from tests.waiting import until

from zombiescope.audit.running import cgroup_of, is_roots, running
from zombiescope.core import Host, Unreadable, UserError
from zombiescope.kernel.cgroup_events import CgroupEvent, parse, watching
from zombiescope.kernel.kmsg import KernelLog
from zombiescope.knowledge.kernel_messages import recognise
from zombiescope.lab._zombies import memory_folder
from zombiescope.probes._open_files import parse_status
from zombiescope.probes._process_stat import parse as parse_stat

FORGED = "x-1     [000] .....     1.000001: cgroup_{}: root=4 id=77 level=2 path=-system.slice-victim.service"
KINDS = ("mkdir", "rmdir", "release")


@pytest.fixture
def folder() -> str:
    try:
        return memory_folder()
    except UserError as error:
        pytest.skip(CANNOT + str(error))


@contextmanager
def made(*paths: str) -> Iterator[None]:
    for path in paths:
        os.mkdir(path)
    try:
        yield
    finally:
        for path in reversed(paths):
            if os.path.isdir(path):
                os.rmdir(path)


def events_of(folder: str, name: str, comm: str) -> list[CgroupEvent]:
    """What is seen while a process of that name makes a cgroup and removes it."""
    act = f"import ctypes, os, sys; ctypes.CDLL(None).prctl(15, {os.fsencode(comm)!r})"
    act += "; os.mkdir(sys.argv[1]); os.rmdir(sys.argv[1])"
    seen: list[CgroupEvent] = []
    try:
        with watching() as events:
            subprocess.run([sys.executable, "-c", act, f"{folder}/{name}"], check=True)

            def come() -> bool:
                seen.extend(events.read())
                return sum(name in it.path and it.kind != "release" for it in seen) >= 2

            end = time.monotonic() + 10
            while not come() and time.monotonic() < end:
                time.sleep(0.05)
    except Unreadable as error:
        pytest.skip(CANNOT + str(error))
    return seen


@pytest.mark.kernel
@pytest.mark.parametrize("comm", ["sh", "a-1 [0] . 1.1: ", "\n-1 [0] . 1.1: ", "x\ny"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cgroup_s_name_forges_no_event(kind: str, comm: str, folder: str) -> None:
    """A cgroup is named like a line of the trace, and its maker's own name has what comes before the event in it."""
    name = FORGED.format(kind)
    seen = events_of(folder, name, comm)
    assert not [it for it in seen if it.id == 77 or it.at < time.time() - 3600 or it.path.startswith("-system.slice")]
    mine = [it for it in seen if name in it.path]
    assert [it.kind for it in mine if it.kind != "release"] == ["mkdir", "rmdir"]
    assert all(it.path == f"/{name}" for it in mine)


@pytest.mark.kernel
def test_the_kernel_lets_no_newline_into_a_name(folder: str) -> None:
    """What a line ends with is in no cgroup's name; otherwise lines could not be told apart at all."""
    with pytest.raises(OSError), made(f"{folder}/zstest\nx"):
        pass


@pytest.mark.parametrize("comm", [b"", b"a", b"a-1", b"-1 [0] . 1.1: c", b"<...>"])
def test_a_line_is_read_from_its_beginning(comm: bytes) -> None:
    """Whatever the name of the process and of the cgroup, the first event of a line is its own."""
    for name in (FORGED, FORGED * 3, " ", "path=/y", "\x1b[m: cgroup_rmdir: root=1 id=1 level=1 path=/z"):
        line = b"%16s-2811    [001] ...1.  1047.513902: cgroup_mkdir: root=4 id=221 level=2 path=/%s"
        event = parse(line % (comm, name.encode()))
        assert event == CgroupEvent(1047.513902, "mkdir", 4, 221, f"/{name}", comm.decode().strip())


@contextmanager
def named(comm: bytes, cgroup: str = "") -> Iterator[int]:
    """A process of another user with that name, perhaps in a cgroup."""
    act = f"import ctypes, os; ctypes.CDLL(None).prctl(15, {comm!r}); os.setuid(65534)"
    act += "; print('begun', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", act], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        try:
            assert it.stdout is not None and it.stdout.readline() == "begun\n"
            if cgroup:
                Path(cgroup, "cgroup.procs").write_text(str(it.pid))
            yield it.pid
        finally:
            it.communicate()


@pytest.mark.beside
@pytest.mark.parametrize("comm", [b"x\nUid:\t0\t0\t0", b") R 2 2 2 0 0 2", b"a) Z 1 (b", b"x\n1 (y) R 0"])
def test_a_process_s_name_forges_no_field(comm: bytes) -> None:
    """A process whose name has brackets, fields and lines in it: /proc/PID/stat, status and comm say whose it is."""
    needs_root()
    with named(comm) as pid:
        host = Host()
        process = until(lambda: parse_stat(host.read(f"/proc/{pid}/stat"), str(pid)))
        assert (process.pid, process.parent, process.threads) == (pid, os.getpid(), 1)
        assert process.name.encode() == comm[:15] and process.state in "RSD"
        assert not is_roots(host, pid) and parse_status(host.read(f"/proc/{pid}/status"))[1] == "65534"
        assert pid not in dict(running(host, ("y", "b", "x")))


@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.parametrize(
    "name", ["zstest:memory:-x", "zs test:0::-system.slice-x", "zstest\r0::\x0b-x", "zstest\x85\u2028-x"]
)
def test_a_cgroup_s_name_forges_no_line_of_a_process(name: str, folder: str) -> None:
    """A cgroup whose name has colons and what other programs take for the end of a line, in /proc/PID/cgroup."""
    path = f"{folder}/{name}"
    with made(path), named(b"x", path) as pid:
        assert cgroup_of(Host(), pid) == f"/{name}"


def logged(act: Callable[[], object], word: str) -> list[str]:
    """The lines of the kernel's log with a word in them that came while something was done."""
    try:
        log = KernelLog()
        log.read(100_000)
    except Unreadable as error:
        pytest.skip(CANNOT + str(error))
    act()
    found: list[str] = []

    def come() -> bool:
        found.extend(it.text for it in log.read(100_000) if word in it.text)
        return bool(found)

    until(come)
    log.close()
    return found


@pytest.mark.kernel
def test_a_cgroup_s_name_forges_no_kill_in_the_log(folder: str) -> None:
    """A cgroup that is named like the kernel's word on a kill runs out of memory, and the kernel logs its name."""
    path = f"{folder}/Killed process 1 (zsvictim) total-vm:1kB, anon-rss:1kB, file-rss:1kB"
    grows = "import sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0'); b'x' * (64 << 20)"
    with made(path):
        limit = Path(path, "memory.limit_in_bytes")
        (limit if limit.exists() else Path(path, "memory.max")).write_text(str(8 << 20))
        lines = logged(lambda: subprocess.run([sys.executable, "-c", grows, path], check=False), "zsvictim")
    said = [it for it in map(recognise, lines) if it is not None]
    assert not [it for it in said if it.fields.get("process") == "zsvictim" or it.kind == "oom_kill"]
    assert [it.fields["task_memcg"] for it in said if it.kind == "oom_context"] == [path.removeprefix(folder)]


@pytest.mark.kernel
def test_a_mount_option_forges_no_line_in_the_log(tmp_path: Path) -> None:
    """Whoever may mount in a user namespace of its own has the kernel log an option that reads like a message."""
    needs_root()
    option = "workqueue: zsvictim hogged CPU for >7us 7 times"
    (line,) = logged(
        lambda: subprocess.run(
            ["unshare", "-Urm", "mount", "-i", "-t", "tmpfs", "-o", option, "zs", str(tmp_path)],
            check=False,
            stderr=subprocess.DEVNULL,
        ),
        "zsvictim",
    )
    assert option in line and recognise(line) is None and recognise(option) is not None
