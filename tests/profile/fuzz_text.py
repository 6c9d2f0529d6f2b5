"""Damage profiles as text, as JSON and as pprof in every way that comes to mind; readers may only ever say Unparsable.

python -m tests.profile.fuzz_text 100000 [seed]
"""

from __future__ import annotations

import gzip
import io
import random
from types import ModuleType

from tests import fuzzing
from tests.profile.captures import capture

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Who
from zombiescope.profile import folded, json_files, perf_script, pprof
from zombiescope.profile.exports import json as json_export
from zombiescope.profile.exports import pprof as pprof_export
from zombiescope.profile.exports import speedscope as speedscope_export
from zombiescope.profile.picture import Picture

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
DIFFERENCE = b"cksum;main;cksum 31 42\nbash;a 7 0.25\nbash;b_[k] 1 1e1\n"
FOLDED = b"# {}\nkubelet;main;read_[k] 42\njava;a b;c;d_[j] 7\r\n;; 1\nalone 3.5\n"
EVENTED = b"""{"shared": {"frames": [{"name": "a"}, {"name": "b", "file": "/bin/b"}]}, "profiles": [{"type": "evented",
"name": "t", "unit": "milliseconds", "startValue": 10, "endValue": 16, "events": [{"type": "O", "frame": 0, "at": 10},
{"type": "O", "frame": 1, "at": 12}, {"type": "C", "frame": 1, "at": 15}, {"type": "C", "frame": 0, "at": 16}]}]}"""
CPUPROFILE = b"""{"nodes": [{"id": 1, "callFrame": {"functionName": "(root)", "url": ""}, "children": [2, 3]},
{"id": 2, "callFrame": {"functionName": "f", "url": "x.js"}, "hitCount": 2}, {"id": 3, "callFrame":
{"functionName": "(idle)"}, "hitCount": 1}], "startTime": 100, "samples": [2, 3, 2], "timeDeltas": [9, 9, 9]}"""
V8_LOG = b"""{"code": [{"name": "/bin/node", "type": "SHARED_LIB"}, {"name": "f x.js:1:2", "type": "JS"}],
"functions": [], "ticks": [{"tm": 5, "vm": 0, "s": [1, 4, 0, 8]}, {"tm": 9, "vm": 7, "s": [-1, 4]}]}"""
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
    b"{",
    b"]",
    b'"',
    b",null",
    b"1e308",
)


def picture() -> Picture:
    stack = (Function("main", False, "/bin/x"), Function("read", True))
    rows = [(7, cpu, Who(cpu, "a b", "/x"), stack, 3) for cpu in range(5)]
    return Picture(capture=capture(rows, unit="nanoseconds"))


def written(export: ModuleType) -> bytes:
    out = io.BytesIO()
    export.write(picture(), out)
    data = out.getvalue()
    return gzip.decompress(data) if export is pprof_export else data


def crooked(changed: bytearray, at: int, random_: random.Random) -> None:
    """What parsers stumble over."""
    changed[at:at] = random_.choice(CROOKED) * random_.choice((1, 1, 1, 50))


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
    return fuzzing.tried(
        times,
        seed,
        (
            (perf_script, SCRIPT),
            (perf_script, SCRIPT.replace(b"\n", b"\r\n")),
            (folded, FOLDED),
            (folded, DIFFERENCE),
            (pprof, written(pprof_export)),
            (json_files, written(speedscope_export)),
            (json_files, written(json_export)),
            (json_files, EVENTED),
            (json_files, CPUPROFILE),
            (json_files, V8_LOG),
        ),
        lambda whole, random_: fuzzing.damaged(whole[1], random_, crooked),
        lambda whole, data, random_: read(whole[0], data, random_),
    )


if __name__ == "__main__":
    fuzzing.main(fuzz)
