"""What it costs to settle: some seconds of many cores, generated from a real capture, and very many distinct stacks."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from zombiescope.core import Host
from zombiescope.places.own_python import environment, own_python
from zombiescope.recorder import short
from zombiescope.recorder.capture import FLUSH
from zombiescope.recorder.head import CLOCK, FETCHED, NAME, RING, SAME, HeadReader, HeadWriter, Record
from zombiescope.recorder.heads import LARGEST, together
from zombiescope.recorder.layout import SEGMENT_SECONDS
from zombiescope.recorder.short import Short, record

SECONDS = 100.0  # of the real capture: of 96 busy cores as much as a child settles
FIRST = 1_794_000_000  # the first segment
SHARED = 4
PROC_STAT = {"probe": "proc_stat"}
MEMORY = 150 << 20
STACKS = 200_000
LIMIT = 2 * 10**9  # bytes of a recording, if nobody says otherwise
_SAMPLE, _COMM, _EXIT, _FORK, _MMAP2 = 9, 3, 4, 7, 10
_WAIT = """import os, sys
status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)[1:]
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)"""
# Every core busy, with programs that compute, read and write: for good, as on a node that trains; or for a second each.
_LASTING = """for core in $(seq $(nproc)); do
  python3 -c 'import json, hashlib
while True: json.loads(json.dumps([hashlib.md5(str(n).encode()).hexdigest() for n in range(9000)]))' &
  gzip -1 </dev/urandom >/dev/null &
done; wait"""
_WORKING = """for core in $(seq $(nproc)); do
  while :; do python3 -c 'import json, hashlib
for _ in range(40): json.loads(json.dumps([hashlib.md5(str(n).encode()).hexdigest() for n in range(9000)]))'; done &
  while :; do head -c 90000000 /dev/urandom | gzip -1 | wc -c >/dev/null; done &
done; wait"""
_SHORT_LIVED = "while :; do for i in 1 2 3 4 5 6; do /bin/true; done; sleep 0.02; done"


def ratios() -> Iterator[tuple[str, float, float, str]]:
    for name, load in (
        ("as this machine is", ""),
        ("all cores busy with programs that last", _LASTING),
        ("all cores busy with programs of a second", _WORKING),
        ("beside short processes", _SHORT_LIVED),
    ):
        look = _look(load)
        if not look.meta["hz"]:
            return
        start, _ = settled_in_a_child([varied(look, 1)], look.meta)
        for cores in (96, 192):
            seconds = SECONDS * 96 / cores
            heads = list(spread(look, cores, seconds))
            size = sum(map(len, heads))
            cpu, memory = settled_in_a_child(heads, look.meta)
            lasts = min(SEGMENT_SECONDS, seconds * together(LIMIT) * LARGEST / size)
            share = (cpu - start) / seconds + start / lasts
            detail = (
                f"{share:.1%} of a core: {cpu:.2f} s of CPU for {seconds:g} s ({size / 1e6:.0f} MB), of "
                f"which {start:.2f} s to start, once in {lasts:.0f} s; {memory / 1e6:.0f} MB"
            )
            what = f"{name}: settling {cores} cores at 49 Hz"
            yield f"{what} against 1.5 % of a core for each 96", share / (0.015 * cores / 96), 1.0, detail
            yield f"{what}, memory against 150 MB", memory / MEMORY, 1.0, detail
    cpu, memory = settled_in_a_child([varied(look, STACKS)], look.meta)
    detail = f"{cpu:.2f} s of CPU for {STACKS:,} distinct stacks, {memory / 1e6:.0f} MB"
    yield "memory to settle 200,000 distinct stacks against 150 MB", memory / MEMORY, 1.0, detail


def _look(load: str) -> Short:
    short.PACE = FLUSH  # rings are read as often as by a recorder
    process = subprocess.Popen(["sh", "-c", load], process_group=0) if load else None
    try:
        return record(Host(), SECONDS, hz=49)
    finally:
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def settled_in_a_child(heads: Sequence[bytes], meta: dict[str, object]) -> tuple[float, int]:
    """Seconds of CPU and bytes of memory at the most, all of the child counted."""
    with tempfile.TemporaryDirectory() as folder:
        segments = [str(FIRST + number) for number in range(len(heads))]
        for segment, head in zip(segments, heads, strict=True):
            (Path(folder) / segment).mkdir()
            (Path(folder) / segment / "head").write_bytes(head)
        (Path(folder) / "meta.json").write_text(json.dumps({"format": 2, **meta}))
        argv = own_python("zombiescope.recorder.settle", folder, *segments)
        # By a small process: what a child has at the most begins with what its parent had.
        said = subprocess.run(
            [sys.executable, "-IS", "-c", _WAIT, *argv], env=environment(), stdout=subprocess.PIPE, check=True
        )
        status, cpu, memory = said.stdout.split()
        if int(status):
            raise RuntimeError(f"settle ended with {status!r}")
        return float(cpu), int(memory) << 10


def spread(look: Short, cores: int, seconds: float) -> Iterator[bytes]:
    """Heads of `cores` cores: always `SHARED` times as many as there are here run the same processes; what else the
    node says is said once.
    """
    found = list(HeadReader(BytesIO(look.head)))
    named = {it.source: json.loads(bytes(it.content)) for it in found if it.kind == NAME}
    per = max(1, sum("ring" in it for it in named.values()))
    end = min(it.at for it in found if it.kind == RING) + seconds * 1e9
    clock = (found[0].at, struct.unpack("<q", found[0].content)[0])
    parts: list[bytes] = []
    head = HeadWriter(parts.extend)
    head.clock(*clock)
    read_at, last = 0, dict[int, Record]()
    for it in found:
        if it.at > end or it.kind in (CLOCK, NAME):
            continue
        if it.kind == RING and it.at != read_at:  # as capture does: no head ends between two rings
            read_at = it.at
            head.flush()
            if head.bytes >= LARGEST:
                yield b"".join(parts)
                parts.clear()
                head = HeadWriter(parts.extend)
                head.clock(*clock)
        said = named[it.source]
        if it.kind == RING:
            for copy in range(-(-cores // per)):
                cpu = copy * per + int(said["ring"])
                if cpu < cores:
                    ring = moved(bytes(it.content), copy // SHARED << 17, cpu, samples_only=bool(copy % SHARED))
                    head.put(RING, head.source({**said, "ring": cpu}, it.at), it.at, ring)
        else:
            last[it.source] = it if it.kind != SAME else last[it.source]._replace(at=it.at)
            if last[it.source].kind == FETCHED:
                wide = widened(last[it.source], cores) if said == PROC_STAT else bytes(last[it.source].content)
                head.fetched(head.source(said, it.at), it.at, wide)
            else:
                head.put(it.kind, head.source(said, it.at), it.at, bytes(it.content))
    head.flush()
    yield b"".join(parts)


def moved(ring: bytes, pids: int, cpu: int, *, samples_only: bool) -> bytes:
    """The same records about other processes, on another core."""
    out, kept = bytearray(ring), list[bytes]()
    at = 0
    while at + 8 <= len(out):
        kind, _, size = struct.unpack_from("<IHH", out, at)
        if not size:
            break
        if kind == _SAMPLE:
            places = [at + 16, at + 20]
            struct.pack_into("<I", out, at + 32, cpu)
        elif kind in (_COMM, _MMAP2):
            places = [at + 8, at + 12]
        elif kind in (_FORK, _EXIT):
            places = [at + 8, at + 12, at + 16, at + 20]
        else:
            places = []
        for place in places:
            (pid,) = struct.unpack_from("<i", out, place)
            if pid > 1:
                struct.pack_into("<i", out, place, pid + pids)
        if kind == _SAMPLE or not samples_only:
            kept.append(bytes(out[at : at + size]))
        at += size
    return b"".join(kept)


def widened(stat: Record, cores: int) -> bytes:
    """/proc/stat of more cores; all of them move at each look."""
    lines = bytes(stat.content).decode().splitlines()
    own = [line for line in lines if line.startswith("cpu") and line[3].isdigit()]
    rest = [line for line in lines if line not in own]
    tick = stat.at // 10_000_000
    wide = []
    for core in range(cores):
        ticks = own[core % len(own)].split()[1:]
        ticks[0] = str(int(ticks[0]) + tick % 1000 * (1 + core % 3))
        wide.append(f"cpu{core} " + " ".join(ticks))
    return "\n".join([rest[0], *wide, *rest[1:]]).encode() + b"\n"


def varied(look: Short, many: int) -> bytes:
    """So many samples, no two of the same stack: 30 addresses each, drawn from those of the real capture."""
    drawn, parts = random.Random(1), list[bytes]()
    addresses = sorted(
        {it for ring in HeadReader(BytesIO(look.head)) if ring.kind == RING for it in _kernel(bytes(ring.content))}
    )
    head = HeadWriter(parts.extend)
    head.clock(0, time.time_ns() - time.monotonic_ns())
    source = head.source({"ring": 0, "event": "cpu-clock", "hz": 999, "cgroup": True}, 0)
    for start in range(0, many, 2000):
        at = time.monotonic_ns() - (many - start) * 1_000_000
        ring = b"".join(
            struct.pack("<IHHQiiqIIqQ", _SAMPLE, 0, 64 + 248, 0, 77, 77, at + it * 1_000_000, 0, 0, 1000, 31)
            + struct.pack("<32Q", (1 << 64) - 128, *drawn.choices(addresses, k=30), 0)
            for it in range(min(2000, many - start))
        )
        head.put(RING, source, at + 2_000_000_000, ring)
    head.flush()
    return b"".join(parts)


def _kernel(ring: bytes) -> Iterator[int]:
    words = memoryview(ring).cast("Q")
    return (it for it in words if (1 << 64) - 4096 > it > 0xFFFFFFFF80000000)


if __name__ == "__main__":
    for name, ratio, limit, detail in ratios():
        print(f"{name}: {ratio:.2f} (at most {limit:g}): {detail}", file=sys.stderr)
