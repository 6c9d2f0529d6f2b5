"""Attacks on the evidence by storms of forks, programs and mappings: their records fill one head after the other."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT, COMMAND, Run
from tests.recorder.heads import META, exited, forked, mapped, named, ran, records
from tests.waiting import until

from zombiescope.core import Host
from zombiescope.kernel.perf_open import Event
from zombiescope.kernel.perf_rings import Drained
from zombiescope.recorder import short, side_band
from zombiescope.recorder.head import RING, HeadSink
from zombiescope.recorder.replay import opened
from zombiescope.recorder.settle import Settled, settled
from zombiescope.recorder.side_band import SideBand

CODE = 0x55D000000000
EVENT = Event(name="cpu-clock", hz=100, kernel=True, user=True, cgroup=True)
HOSTILE, VICTIM = 5000, 100


class Storm:
    """Rings through what a recorder does with them, and what is settled of it. The storm has been noticed."""

    def __init__(self, rate: int = 10_000) -> None:
        self.parts: list[bytes] = []
        self.sink, self.side = HeadSink(self.parts.extend), SideBand(rate)
        self.side.count(rate * 100, 0)
        assert self.side.storm

    def ring(self, *content: bytes) -> None:
        kept, unknown = self.side.within([Drained(0, b"".join(content), 0, None)])
        self.sink.drained(EVENT, kept, unknown, self.side.since)
        self.sink.flush()

    @property
    def size(self) -> int:
        return sum(len(it.content) for it in records(b"".join(self.parts)) if it.kind == RING)

    def settled(self) -> Settled:
        return settled(b"".join(self.parts), META)


def now() -> float:
    """A little ago: times in records are those of the machine."""
    return time.monotonic() - 1


def began(pid: int, name: str, at: float) -> list[bytes]:
    return [forked(pid, 1, at), named(pid, at, name, execed=True), mapped(pid, at, CODE, f"/bin/{name}")]


def frames(found: Settled, pid: int) -> list[tuple[str, list[str]]]:
    stacks = {it["stack"]: it["frames"] for it in found.table("stacks").to_pylist()}
    return [(it["comm"], stacks[it["stack"]]) for it in found.table("samples").to_pylist() if it["pid"] == pid]


def test_a_storm_of_mappings_takes_so_much_and_no_more() -> None:
    """One process maps files without end: its own are left out, samples are not, nor what others run."""
    storm, at = Storm(), now()
    storm.ring(*began(HOSTILE, "evil", at), ran(HOSTILE, at, CODE + 1))
    storm.ring(*(mapped(HOSTILE, at + 0.1, CODE * 2 + it * 4096, "/bin/evil") for it in range(20_000)))
    storm.ring(*began(VICTIM, "victim", at + 0.5), ran(VICTIM, at + 0.6, CODE + 2), ran(HOSTILE, at + 0.6, CODE + 1))
    assert storm.size < 10_000 * side_band.WINDOW + 1000, "samples are kept"
    found = storm.settled()
    assert frames(found, VICTIM) == [("victim", ["victim+0x2"])]
    assert [it for _, it in frames(found, HOSTILE)] == [["evil+0x1"], ["[unknown]"]], "never a name of before"
    assert not found.damage


def test_a_storm_of_forks_takes_one_share_however_many_processes_it_is() -> None:
    """A program starts programs without end, each with its own mappings; each process is a new one."""
    storm, at = Storm(), now()
    for pid in range(HOSTILE + 1, HOSTILE + 2000):
        storm.ring(
            forked(pid, pid - 1 if pid % 2 else HOSTILE, at),
            named(pid, at, "x", execed=True),
            *(mapped(pid, at, CODE + it * 0x10000, "/bin/x") for it in range(5)),
            *([exited(pid, at)] if pid % 3 else []),
        )
    storm.ring(*began(VICTIM, "victim", at), ran(VICTIM, at + 0.1, CODE + 2))
    assert storm.size < 10_000 * side_band.WINDOW + 1000, "samples are kept"
    assert frames(storm.settled(), VICTIM) == [("victim", ["victim+0x2"])]


def test_in_a_storm_of_programs_with_many_mappings_each_has_its_name_all_the_same() -> None:
    """As when a compiler runs: what takes the room are mappings; forks and names are few bytes each."""
    storm, at = Storm(), now()
    for pid in range(HOSTILE + 1, HOSTILE + 121):
        storm.ring(
            forked(pid, HOSTILE, at),
            named(pid, at, "cc1", execed=True),
            *(mapped(pid, at, CODE + it * 0x10000, "/bin/cc1") for it in range(20)),
            ran(pid, at + 0.001, CODE + 0x90001),
            exited(pid, at + 0.002),
        )
    assert storm.size < 10_000 * side_band.WINDOW + 120 * 200, "samples are kept"
    names = Counter(it["comm"] for it in storm.settled().table("samples").to_pylist())
    assert names["cc1"] == 120, names


def test_a_pid_that_is_used_again_in_a_storm_has_no_name_of_the_one_before() -> None:
    """The mappings of a process are left out, so that its samples would be counted as those of another program."""
    storm, at = Storm(), now()
    storm.ring(*began(VICTIM, "victim", at), ran(VICTIM, at, CODE + 2), exited(VICTIM, at + 0.1))
    storm.ring(*(mapped(HOSTILE, at, CODE + it * 4096, "/bin/evil") for it in range(20_000)))
    many = (mapped(HOSTILE + it, at, CODE, "/bin/evil") for it in range(20_000))
    storm.ring(forked(HOSTILE, 1, at), *many)
    storm.ring(
        forked(VICTIM, HOSTILE, at + 0.2), named(VICTIM, at + 0.2, "evil", execed=True), ran(VICTIM, at + 0.3, CODE + 2)
    )
    first, second = frames(storm.settled(), VICTIM)
    assert first == ("victim", ["victim+0x2"]) and second[1] == ["[unknown]"]


def test_what_is_little_is_not_looked_at() -> None:
    """A busy node: 300 processes a second are no storm."""
    side = SideBand()
    for _ in range(100):
        side.count(6_000, 49)
    assert not side.storm


PROGRAM = r"""
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int file = open(argv[1], O_RDONLY);
    for (;;) { void *at = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0); munmap(at, 4096); }
}
"""


@contextmanager
def mapping(folder: Path) -> Iterator[None]:
    """A real storm: one process that maps a file with a path of 2 KB again and again, on each core."""
    if shutil.which("gcc") is None:
        pytest.skip(CANNOT + "compile the hostile program: no gcc")
    subprocess.run(["gcc", "-O1", "-x", "c", "-o", folder / "storm", "-"], input=PROGRAM, text=True, check=True)
    deep = folder
    for _ in range(8):
        deep = deep / ("d" * 240)
    deep.mkdir(parents=True)
    file = deep / "file"
    file.write_bytes(bytes(4096))
    storms = [subprocess.Popen([folder / "storm", file]) for _ in range(2)]
    try:
        yield
    finally:
        for it in storms:
            it.kill()
            it.wait()


@pytest.mark.kernel
@pytest.mark.alone
def test_a_real_storm_of_mappings_pushes_no_segment_out(tmp_path: Path, zombiescope: Run) -> None:
    """Two processes map a file with a path of 2 KB: 100 MB of records a second, of a recording that may have 64 MB."""
    folder = tmp_path / "rec"
    zombiescope("record", str(folder), "--for", "2s", "--max-bytes", "64M", expect=0)
    first, started = opened(str(folder)).segments[0], time.monotonic()
    with mapping(tmp_path), subprocess.Popen([COMMAND, "record", str(folder), "--max-bytes", "64M"]) as process:
        try:
            until(lambda: list(folder.glob("*/head")))
            time.sleep(20)
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
    passed = time.monotonic() - started
    found = opened(str(folder))
    assert found.segments[0] == first, "what was there before the storm is there"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size < (64 << 20) * side_band.PART * passed + (24 << 20)
    said = zombiescope("info", str(folder), expect=0).stdout
    assert "records of forks, programs begun, mappings and names were left out" in said
    assert "most of them of storm (pid" in said


@pytest.mark.kernel
@pytest.mark.alone
def test_a_look_during_a_real_storm_says_what_was_left_out(tmp_path: Path) -> None:
    """The same during a short look: it stays small, others have their names, and it says so."""
    spin = "import sys\ndef spin_here():\n    while True: pass\nspin_here()"
    with mapping(tmp_path), subprocess.Popen([sys.executable, "-c", spin]) as victim:
        try:
            look = short.record(Host(), 8.0, hz=49, only=())
        finally:
            victim.kill()
    if not look.meta["hz"]:
        pytest.skip(CANNOT + "sample")
    assert len(look.head) < 40 << 20
    found = settled(look.head, look.meta, host=None)
    assert any("were left out" in str(it["text"]) for it in found.table("events").to_pylist())
