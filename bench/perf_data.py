"""A large perf.data file, opened by us and printed by `perf script`: CPU seconds, memory, and whether we agree."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench._commands import command, weigh
from bench._perf_script import compare
from bench._text_reader import text_reader
from zombiescope.cli._sources import opened
from zombiescope.core import UserError
from zombiescope.core.samples import Samples
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.heatmap import SECOND, heatmap
from zombiescope.profile.perf_data_reading import Reading, Records
from zombiescope.profile.perf_data_records import pieces
from zombiescope.profile.tree import planted

FOLDER = os.path.join(tempfile.gettempdir(), "zs-capture")
SECONDS = 105  # at 999 Hz, two busy cores give 200,000 samples in it
FEWEST = 200_000
RUNS = 3  # of whole processes, in turns; what takes milliseconds is run more often
CELL = SECOND // 50
_KSYMBOL, _KSYMBOL_NAME = 17, 24  # kind of the record, and where its name is: behind head, address, length, type, flags
# What nodes run is mostly Go, which keeps frame pointers: its stacks are whole, and deep. Where there is no Go they are
# missing, and perf has less to print.
GO = """package main
import ("encoding/json"; "time")
type Node struct { Name string; Below []Node }
func grown(deep int) Node {
	node := Node{Name: "a node of a tree"}
	for i := 0; i < 3 && deep > 0; i++ { node.Below = append(node.Below, grown(deep - 1)) }
	return node
}
func main() {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		text, _ := json.Marshal(grown(8))
		var back Node
		_ = json.Unmarshal(text, &back)
	}
}
"""
# Parsers, hashes and regular expressions, pipes, files, short programs by the thousand: kernel and user, deep and flat.
LOAD = r"""
end=$((SECONDS+$1))
test -x "$2" && while ((SECONDS<end)); do GOMAXPROCS=1 "$2"; done &
while ((SECONDS<end)); do python3 -c 'import hashlib, json, re
for _ in range(12):
    rows = [{"n": n, "h": hashlib.sha256(str(n).encode()).hexdigest()} for n in range(2500)]
    text = json.dumps(rows); json.loads(text); re.findall("[0-9a-f]{6}7", text)'; done &
while ((SECONDS<end)); do head -c 20000000 /dev/urandom | gzip -1 >/dev/null; done &
while ((SECONDS<end)); do find /usr /proc -maxdepth 5 2>/dev/null | sort | md5sum >/dev/null; done &
while ((SECONDS<end)); do tar cf - /usr/lib/python3 /usr/share/perl 2>/dev/null | cat >/dev/null; sleep 0.2; done &
wait
"""
# What `view -o` does, and imports: nothing but numpy.
HEATMAP = (
    "import sys; from zombiescope.cli._allocating import reuse_freed; reuse_freed(); "
    "from zombiescope.cli._sources import opened; from zombiescope.profile.heatmap import heatmap; "
    "from zombiescope.cli._files import NEVER, Asked; "
    f"heatmap(opened(sys.argv[1], asked=Asked(stacks=NEVER)).capture, {CELL})"
)
FLAMESCOPE = "ZOMBIESCOPE_FLAMESCOPE"  # the folder of FlameScope's source, if it is at hand


def ratios() -> Iterator[tuple[str, float, float, str]]:
    if not shutil.which("perf"):
        raise UserError("perf is not installed")
    path = recorded()
    with _installed():
        yield from _whole_processes(path)
    yield from _warm(path)
    yield from _agreeing(path)


def recorded() -> str:
    """The capture, made once and kept; perf script can read it."""
    path = os.path.join(FOLDER, "main.data")
    if os.path.exists(path):
        _make_readable(path)
        return path
    print(f"recording {path}: {SECONDS} s, once", file=sys.stderr)
    os.makedirs(FOLDER, exist_ok=True)
    load = subprocess.Popen(["bash", "-c", LOAD, "load", str(SECONDS), _go_program()], stdout=subprocess.DEVNULL)
    try:
        # perf 6.1 dies when it looks for build-ids at the end and meets one of more than 20 bytes.
        argv = ("perf", "record", "-q", "--buildid-mmap", "-F", "999", "-a", "-g", "-o", f"{path}.new")
        done = subprocess.run((*argv, "--", "sleep", str(SECONDS)), capture_output=True)
    finally:
        load.wait()
    if done.returncode:
        raise UserError(f"perf record: {done.stderr.decode(errors='replace')[-200:]}")
    _make_readable(f"{path}.new")
    os.rename(f"{path}.new", path)
    return path


def _go_program() -> str:
    """Its path, whether or not it could be built."""
    source, program = (os.path.join(FOLDER, name) for name in ("tree.go", "tree"))
    if shutil.which("go"):
        with open(source, "w") as file:
            file.write(GO)
        subprocess.run(("go", "build", "-o", program, source), check=True, cwd=FOLDER)
    return program


def _make_readable(path: str) -> None:
    """perf 6.1 ends with "failed to process type: 17" at records of BPF programs that came or went (KSYMBOL) while
    several profilers ran: the kernel adds the size of the trailer once for each of them (perf_event_ksymbol_output does
    not restore it, as perf_event_mmap_output does), and perf looks for the trailer at the end. It is put there."""
    if not _trouble_of_perf(path):
        return
    with open(path, "r+b") as file:
        number, length = file.fileno(), os.fstat(file.fileno()).st_size

        def read(at: int, most: int) -> bytes:
            return os.pread(number, most, at)

        trailer = 8 * Reading(Records(read, length, path), path).trailer
        start, size = struct.unpack_from("<QQ", read(0, 56), 40)
        for piece in pieces(read, start, start + size, []):
            for place in piece.of(_KSYMBOL).tolist():
                at = piece.offset + 8 * place
                record = read(at, int.from_bytes(read(at + 6, 2), "little"))
                name = _KSYMBOL_NAME + (record[_KSYMBOL_NAME:].index(b"\0") + 8 & ~7)
                os.pwrite(number, record[name : name + trailer], at + len(record) - trailer)
    if trouble := _trouble_of_perf(path):
        raise UserError(f"perf script cannot read {path}: {trouble}; remove it to record another")


def _trouble_of_perf(path: str) -> str:
    """Why perf script ends early; empty if it does not."""
    argv = ("perf", "script", "-i", path)
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    return "" if not done.returncode else f"{done.returncode} {done.stderr.strip()[-200:]}"


@contextmanager
def _installed() -> Iterator[None]:
    """Bytecode is kept, as of what is installed, and numpy starts no threads, as in every verb of ours."""
    before = os.environ.copy()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ |= {"PYTHONPYCACHEPREFIX": folder, "OPENBLAS_NUM_THREADS": "1"}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _whole_processes(path: str) -> Iterator[tuple[str, float, float, str]]:
    large, text, small = (os.path.join(FOLDER, name) for name in ("large.data", "main.txt", "small.data"))
    _repeated(path, large, 6)
    _small(small)
    flame = command("flame", path, "--format", "folded", "-o", os.path.join(FOLDER, "main.folded"))
    commands = {
        "perf": ("perf", "script", "-i", path),
        "text": ("bash", "-c", f"exec perf script --header -i {path} > {text}"),
        "reader": text_reader(text, os.environ.get(FLAMESCOPE)),
        "heat": (sys.executable, "-c", HEATMAP, path),
        "picture": command("view", path, "-o", os.path.join(FOLDER, "heat.png")),
        "second": (*flame, "--from", "30", "--to", "31"),
        "folded": flame,
        "small": command("flame", small),
        "perf, small": ("perf", "script", "-i", small),
    }
    for argv in commands.values():
        weigh(*argv)  # bytecode and the text are written
    cost = dict.fromkeys(commands, float("inf"))
    memory = dict.fromkeys(commands, 0.0)
    for _ in range(RUNS):  # in turns, so that a noisy moment is everybody's
        for name, argv in commands.items():
            used, most = weigh(*argv)
            cost[name], memory[name] = min(cost[name], used), max(memory[name], most)
    route = cost["text"] + cost["reader"]
    whose = "FlameScope's" if os.environ.get(FLAMESCOPE) else f"a plain reader in place of FlameScope's ({FLAMESCOPE})"
    for name, what, other, limit in (
        ("heat", "perf.data to heatmap, against perf script and " + whose, route, 1 / 20),
        ("picture", "the same by the command, view -o heat.png", route, 1 / 15),
        ("heat", "perf.data to heatmap, against perf script alone", cost["perf"], 1 / 5),
        ("second", "flame --from --to of one second, against 0.4 s", 0.4, 1.0),
        ("folded", "flame --format folded, against perf script", cost["perf"], 1 / 3),
        ("small", "flame of a small file, against perf script", cost["perf, small"], 1.0),
    ):
        detail = f"{cost[name]:.2f} s CPU against {other:.2f} s: {other / cost[name]:.1f} times as fast"
        yield f"{what}, whole process", cost[name] / other, limit, detail
    most = memory["folded"]
    yield "memory, names and all, against 300 MB", most / 300e6, 1.0, f"{most / 1e6:.0f} MB"
    used, most = weigh(*(large if it == path else it for it in flame))
    yield (
        "memory for a file six times as large against 3 × 300 MB",
        most / 900e6,
        1.0,
        f"{most / 1e6:.0f} MB, {used:.2f} s",
    )
    os.unlink(large)
    os.unlink(text)


def _small(path: str) -> None:
    """A capture of one short program."""
    if not os.path.exists(path):
        argv = ("perf", "record", "-q", "--buildid-mmap", "-F", "999", "-g", "-o", path)
        subprocess.run((*argv, "--", "python3", "-c", "import json"), check=True, capture_output=True)
        _make_readable(path)


def _repeated(path: str, to: str, times: int) -> None:
    """The same file with its records many times over, and nothing behind them."""
    with open(path, "rb") as file:
        data = file.read()
    start, size = struct.unpack_from("<QQ", data, 40)
    head = data[:48] + struct.pack("<Q", times * size) + data[56:72] + bytes(32) + data[104:start]
    with open(to, "wb") as file:
        file.write(head)
        for _ in range(times):
            file.write(data[start : start + size])


def _warm(path: str) -> Iterator[tuple[str, float, float, str]]:
    perf = min(weigh("perf", "script", "-i", path)[0] for _ in range(2))
    found = opened(path).capture
    took = _quickest(lambda: heatmap(opened(path).capture, CELL))
    detail = (
        f"{took * 1e3:.0f} ms against {perf:.2f} s: {perf / took:.0f} times as fast; {len(found) / took / 1e6:.1f} M/s"
    )
    yield "perf.data to heatmap, in a running process, against perf script", took / perf, 1 / 12, detail
    tree = planted(found)
    second = _from(found, 30, 1)
    for what, ask, limit in (
        ("one second", lambda: tree.flame(second), 0.005),
        ("everything", lambda: tree.flame(), 0.01),
        ("a difference", lambda: tree.difference(_from(found, 30, 10), _from(found, 60, 10)).total(), 0.01),
    ):
        took = _quickest(ask)
        yield (
            f"flame graph of {what} against {limit * 1e3:g} ms",
            took / limit,
            1.0,
            f"{took * 1e3:.2f} ms, {len(tree):,} nodes",
        )


def _from(capture: Samples, second: int, length: int) -> Chosen:
    return Chosen(start=capture.start + second * SECOND, end=capture.start + (second + length) * SECOND)


def _quickest(ask: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        ask()
        best = min(best, time.process_time() - started)
    return best


def _agreeing(path: str) -> Iterator[tuple[str, float, float, str]]:
    capture = opened(path).capture
    found = compare(capture, path)
    yield "samples against the 200,000 that this is about", FEWEST / found.samples, 1.0, f"{found.samples:,}"
    yield "samples whose time or cpu differs from perf script's", float(found.time_and_cpu), 0.0, ""
    yield "samples whose comm, pid or tid differs", float(found.who), 0.0, ""
    detail = f"perf dropped {found.dropped} chains whose kernel frames we show; {found.aliases} have an alias"
    detail += f", {found.forgotten} a BPF program that was taken out and that perf has no name for any more"
    yield "samples whose kernel stack differs", float(found.kernel), 0.0, detail
    yield "samples whose leaf has another name against 1 %", found.leaf / found.samples / 0.01, 1.0, f"{found.leaf:,}"
