"""Damage profiles as text and as pprof in every way that comes to mind; readers may only ever say Unparsable.

python -m tests.profile.fuzz_text 100000 [seed]
"""

from __future__ import annotations

import gzip
import io
import random
import resource
import sys
import time
from types import ModuleType

from tests.profile.captures import capture

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Who
from zombiescope.profile import folded, perf_script, pprof
from zombiescope.profile.exports import pprof as pprof_export
from zombiescope.profile.picture import Picture

SLOWEST_SECONDS = 2.0  # an input of two kilobytes takes 0.2 ms; this leaves room for a machine that does other things
MOST_GROWTH = 200 << 20  # bytes of memory, over the whole run

SCRIPT = b"""# ========
# event : name = cpu-clock, { sample_period, sample_freq } = 99
# ========
#
VM Thread 4771/4772 [003]  5076.836336123:    1001001 cpu-clock:ppp:  /kubepods/pod 1
\tffffffff81051586 native_safe_halt+0x6 ([kernel.kallsyms])
\tffffffffc01 nf_hook ([nf_conntrack])
\t    7fa4 operator()(int, char (*)[3]) (/tmp/a (deleted))
\t    7fa4 inlined_one (inlined)
  file.c:12
\tffffffffffffff [unknown] ([unknown])

         swapper     0 [000] 202513.231817: sched:sched_switch: prev_comm=a 1 [000] 1.000000: b: ==> next
java 12 1794000000.000001:   4b931e Lfoo;::bar (/tmp/perf-1.map)
plain 7 cycles:
\tabc main (/bin/x)
"""
FOLDED = b"# {}\nkubelet;main;read_[k] 42\njava;a b;c;d_[j] 7\r\n;; 1\nalone 3.5\n"
CROOKED = (
    b"\n",
    b"\n\n",
    b"\t",
    b" " * 300,
    b"#",
    b";",
    b"\0",
    b"\xff\xfe",
    b"\r\n",
    b"(",
    b")",
    b"[",
    b":",
    b"99" * 40,
    b"-1",
)


def profile() -> bytes:
    stack = (Function("main", False, "/bin/x"), Function("read", True))
    rows = [(7, cpu, Who(cpu, "a b", "/x"), stack, 3) for cpu in range(5)]
    out = io.BytesIO()
    pprof_export.write(Picture(capture=capture(rows, unit="nanoseconds")), out)
    return gzip.decompress(out.getvalue())


def damaged(data: bytes, random_: random.Random) -> bytes:
    """One to eight changes: bits, bytes, cuts, repeats, and words that parsers stumble over."""
    changed = bytearray(data)
    for _ in range(random_.randint(1, 8)):
        at = random_.randrange(len(changed)) if changed else 0
        match random_.randrange(6):
            case 0 if changed:
                changed[at] ^= 1 << random_.randrange(8)
            case 1 if changed:
                changed[at] = random_.choice((0, 9, 10, 0x20, 0x7F, 0x80, 0xFF, random_.randrange(256)))
            case 2:
                changed[at:at] = random_.choice(CROOKED) * random_.choice((1, 1, 1, 50))
            case 3:
                del changed[at:]
            case 4:
                del changed[at : at + random_.randrange(1, 40)]
            case _:
                changed[at:at] = changed[at : at + random_.randrange(1, 200)]
    return bytes(changed)


def read(reader: ModuleType, data: bytes, random_: random.Random) -> bool:
    """All there is to read, in pieces; True if it was read. Any other exception than ours is a bug."""
    size = random_.choice((1 << 20, 1 << 20, 61))
    try:
        found = reader.parse([data[at : at + size] for at in range(0, len(data), size)], "fuzz")
    except Unparsable:
        return False
    reader.looks_like(data)
    assert (found.weight > 0).all() and (found.at >= 0).all() and len(found.idle) == len(found.frames)
    assert Picture(capture=found).now.all == int(found.weight[found.busy].sum())
    return True


def fuzz(times: int, seed: int) -> int:
    """How many of the damaged inputs could still be read."""
    random_ = random.Random(seed)
    seeds = ((perf_script, SCRIPT), (perf_script, SCRIPT.replace(b"\n", b"\r\n")), (folded, FOLDED), (pprof, profile()))
    still_read, before = 0, _memory()
    for number in range(times):
        reader, whole = random_.choice(seeds)
        data = damaged(whole, random_)
        started = time.perf_counter()
        try:
            still_read += read(reader, data, random_)
        except BaseException:
            sys.stderr.write(f"seed {seed}, mutation {number}, {reader.__name__}: {data.hex()}\n")
            raise
        if time.perf_counter() - started > SLOWEST_SECONDS:
            raise AssertionError(f"seed {seed}, mutation {number} took more than {SLOWEST_SECONDS} s: {data.hex()}")
    assert _memory() - before < MOST_GROWTH, "memory grows with what is read"
    return still_read


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.perf_counter()
    told = fuzz(wanted, chosen)
    sys.stdout.write(f"{wanted} damaged inputs, {told} still read, {time.perf_counter() - began:.1f} s, no bug\n")
