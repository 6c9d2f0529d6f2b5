"""Names of what runs, sampled for real: JavaScript, Python, BPF programs, processes that live for a moment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.kernel.sampler import Sampler
from tests.naming.programs import children, compiled
from tests.pythons import HAS_FRAMES, python_that
from tests.waiting import until

from zombiescope.core import Host
from zombiescope.core.errors import Unreadable
from zombiescope.kernel import bpf
from zombiescope.kernel.ebpf import R0, Assembler
from zombiescope.kernel.perf_changes import Ksymbol
from zombiescope.naming import kernel_names
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.naming.kernel_names import KernelNames, kernel_symbols
from zombiescope.recorder.head import HeadSink
from zombiescope.recorder.ring_stream import RingStream
from zombiescope.recorder.settle import Settled, settled
from zombiescope.recorder.stack_series import GIVES, NAME, USER_SYMBOLS

pytestmark = [pytest.mark.kernel, pytest.mark.beside]
HZ = 199
JAVASCRIPT = "function spin_in_js(n){let s=0;for(let i=0;i<n;i++)s+=Math.sqrt(i*s);return s} for(;;)spin_in_js(1e6)"
PYTHON = "def spin_in_python(n):\n    return sum(i * i for i in range(n))\nwhile True: spin_in_python(10000)"
IN_A_CONTAINER = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c")
# Names itself in bytes that are no UTF-8, and in one that the kernel cuts in the middle of a character.
RENAMES = """
import ctypes
name = ctypes.CDLL(None).prctl
while True:
    for text in (b"odd\\xff\\xfe\\x1b", "ab€€€€€€".encode()):
        name(15, text, 0, 0, 0)
        sum(range(200000))
"""
NO_FRAME_POINTERS = """
volatile unsigned long turns;
__attribute__((noinline)) void spin_bare(unsigned long n) { while (n--) turns += n * turns; }
int main(void) { for (;;) spin_bare(1000000); }
"""


@contextmanager
def spinning(*argv: str | Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryDirectory() as folder:  # node writes a log of its own where it runs
        process = subprocess.Popen(argv, env={**os.environ, **(env or {})}, stderr=subprocess.DEVNULL, cwd=folder)
        try:
            yield process
        finally:
            for child in [*children(process.pid), process.pid]:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(child, 9)
            process.wait()


@contextmanager
def recorded(seconds: float) -> Iterator[Settled]:
    """A head, settled while what was sampled still runs."""
    parts: list[bytes] = []
    sink = HeadSink(parts.extend)
    with RingStream(Host(), sink, hz=HZ) as rings:
        if not rings.hz:
            pytest.skip(CANNOT + "; ".join(rings.blind))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.5)
            rings.read()
            sink.flush()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    yield settled(b"".join(parts), {"boot_id": boot, "gives": {NAME: GIVES}, "events": ()}, host=Host())


def functions_of(found: Settled, pid: int) -> Counter[str]:
    """In how many samples of a process each function is."""
    frames = {row["stack"]: set(row["frames"]) for row in found.table("stacks").to_pylist()}
    rows = [row for row in found.table("samples").to_pylist() if row["pid"] == pid]
    return Counter(name for row in rows for name in frames[row["stack"]])


def comms_of(found: Settled, pid: int) -> set[str]:
    return {row["comm"] for row in found.table("samples").to_pylist() if row["pid"] == pid}


def runtime(language: str) -> tuple[list[str], dict[str, str]]:
    if language == "node":
        if shutil.which("node") is None:
            pytest.skip(CANNOT + "run JavaScript: no node")
        return ["node", "--perf-basic-prof", "-e", JAVASCRIPT], {}
    if python := python_that(HAS_FRAMES):
        return [python, "-c", PYTHON], {"PYTHONPERFSUPPORT": "1"}
    return pytest.skip(CANNOT + "run a Python that writes a perf map: none from 3.12 on, with frame pointers")


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize(("language", "function"), [("node", "spin_in_js"), ("python", "py::")])
def test_functions_compiled_at_run_time_are_named(language: str, function: str, contained: bool) -> None:
    argv, env = runtime(language)
    if contained:
        env |= {"CODE": argv[-1]}
        command = f'mount -t tmpfs none /tmp && exec {" ".join(argv[:-1])} "$CODE"'
        argv = [*IN_A_CONTAINER, command]
    with (
        spinning(*argv, env=env) as process,
        recorded(8) as found,
    ):  # from the first moment on, before there is a map
        pid = children(process.pid)[0] if contained else process.pid
        seen = functions_of(found, pid)
    Path(f"/tmp/perf-{pid}.map").unlink(missing_ok=True)
    assert any(function in name for name in seen), seen.most_common(10)


def test_a_fifo_in_the_place_of_a_map_is_recorded_as_a_reason() -> None:
    argv, env = runtime("node")
    argv.remove("--perf-basic-prof")
    with spinning(*argv, env=env) as process:
        path = Path(f"/tmp/perf-{process.pid}.map")
        os.mkfifo(path)
        try:
            with recorded(3) as found:
                column = found.timeline({NAME: GIVES}, hz=HZ).looks(USER_SYMBOLS)
        finally:
            path.unlink()
    assert any("not a regular file" in column.reading(place).text for place in range(len(column)))
    assert column.values.all(), "one process without names does not blind the node"


def test_a_program_without_frame_pointers_is_named_where_it_runs(tmp_path: Path) -> None:
    program = compiled(NO_FRAME_POINTERS, tmp_path / "bare", "-fomit-frame-pointer")
    with spinning(program) as process, recorded(2) as found:
        seen = functions_of(found, process.pid)
    assert seen["spin_bare"] > 10


def test_names_of_threads_in_any_bytes_are_cleaned() -> None:
    with spinning(sys.executable, "-c", RENAMES) as process, recorded(3) as found:
        comms = comms_of(found, process.pid)
    assert {r"odd\xff\xfe" + "\x1b", "ab€€€€"} <= comms, comms


def test_three_hundred_short_processes_a_second_do_not_fill_the_memory() -> None:
    loop = "while :; do for i in 1 2 3 4 5 6; do /bin/true; done; sleep 0.005; done"
    with spinning("sh", "-c", loop), recorded(5) as found:
        namer = found.stacks._namer
        assert len(namer._mappings) <= 4096 and len(namer._files) <= 1024
        assert len(namer._perf_maps) <= 256
        until(lambda: not namer.reads)


def small_program() -> bytes:
    program = Assembler()
    program.set(R0, 0)
    program.exit()
    return program.assemble()


@pytest.mark.alone  # kallsyms gives no ends: a program that others loaded just below would give this one its name
def test_a_bpf_program_loaded_later_is_named_from_its_record() -> None:
    host = Host()
    with Sampler(hz=1) as sampler:
        if not sampler.reports_code:
            pytest.skip(CANNOT + "report BPF programs: the kernel is older than 5.1")
        names = KernelNames(host, kernel_symbols(host), reported=True)
        try:
            with bpf.Program(small_program(), "zs_named"):
                records = sampler.read().records
        except Unreadable as error:
            pytest.skip(CANNOT + str(error))
    (loaded,) = [it for it in records if isinstance(it, Ksymbol) and it.name.endswith("_zs_named") and not it.gone]
    assert names.names([loaded.address + 1]) == ["[unknown]"]
    names.feed(records)
    assert names.names([loaded.address + 1]) == [f"{loaded.name} [bpf]"] and loaded.name.startswith("bpf_prog_")
    assert names.names([loaded.address + loaded.length + (1 << 20)]) != [f"{loaded.name} [bpf]"]


@pytest.mark.alone
def test_without_records_kallsyms_is_read_again_at_most_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    host, now, reads = Host(), [1000.0], list[float]()

    def counted(host: Host) -> KallsymsText:
        reads.append(now[0])
        return kernel_symbols(host)

    names = KernelNames(host, kernel_symbols(host), reported=False, clock=lambda: now[0])
    monkeypatch.setattr(kernel_names, "kernel_symbols", counted)
    with Sampler(hz=1) as sampler, bpf.Program(small_program(), "zs_later"):
        (loaded,) = [it for it in sampler.read().records if isinstance(it, Ksymbol) and it.name.endswith("_zs_later")]
        assert names.names([loaded.address + 1]) == ["[unknown]"] and not reads
        now[0] += 61
        names._names.clear()
        (name,) = names.names([loaded.address + 1])
        assert name.startswith("bpf_prog_") and name.endswith("zs_later [bpf]") and len(reads) == 1
    for _ in range(50):
        now[0] += 1
        names.names([int(now[0])])
    assert len(reads) == 1
