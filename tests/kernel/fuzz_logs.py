"""Kernel logs in every form that programs write, damaged at random: the reader may only ever say Unparsable.

python -m tests.kernel.fuzz_logs 100000 [seed]
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

from tests import fuzzing

from zombiescope.core import Unparsable
from zombiescope.kernel.log_text import parse_log

RESET = "ena 0000:00:05.0 eth0: Trigger reset is on"
AT = datetime(2026, 11, 12, 15, 12, 4, 123456, tzinfo=UTC).timestamp()
ENDED = AT + 3600.0
MICROSECONDS = "1794496324123456"
ENTRY = {"__REALTIME_TIMESTAMP": MICROSECONDS, "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "3", "_TRANSPORT": "kernel"}
AS_WRITTEN = {
    "dmesg -x -T": "kern  :err   : [Thu Nov 12 15:12:04 2026] {}",
    "dmesg --time-format iso": "2026-11-12T15:12:04,123456+00:00 {}",
    "dmesg -x --time-format iso": "kern  :err   : 2026-11-12T15:12:04,123456+00:00 {}",
    "short": "Nov 12 15:12:04 node-7 kernel: {}",
    "short-precise": "Nov 12 15:12:04.123456 node-7 kernel: {}",
    "short-iso": "2026-11-12T15:12:04+00:00 node-7 kernel: {}",
    "short-iso-precise": "2026-11-12T15:12:04.123456+00:00 node-7 kernel: {}",
    "short-full": "Thu 2026-11-12 15:12:04 UTC node-7 kernel: {}",
    "short-full of a zone": "Thu 2026-11-12 16:12:04 +01:00 node-7 kernel: {}",
    "short-unix": "1794496324.123456 node-7 kernel: {}",
    "with-unit": "Thu 2026-11-12 15:12:04 UTC node-7 kernel: {}",
    "json": json.dumps(ENTRY | {"MESSAGE": RESET}),
    "json of bytes": json.dumps(ENTRY | {"MESSAGE": list(RESET.encode())}),
    "json-pretty": json.dumps(ENTRY | {"MESSAGE": RESET}, indent=8),
    "json-sse": "data: " + json.dumps(ENTRY | {"MESSAGE": RESET}) + "\n",
    "json-seq": "\x1e" + json.dumps(ENTRY | {"MESSAGE": RESET}),
    "export": f"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP={MICROSECONDS}\nPRIORITY=3\n"
    "SYSLOG_IDENTIFIER=kernel\nMESSAGE={}\n",
    "verbose": "Thu 2026-11-12 15:12:04.123456 UTC [s=1;i=2;b=3;m=4;t=5;x=6]\n"
    "    SYSLOG_IDENTIFIER=kernel\n    MESSAGE={}\n",
    "rsyslog of SUSE": "2026-11-12T15:12:04.123456+00:00 node-7 kernel: [12345.678901] {}",
    "rsyslog of Ubuntu": "Nov 12 15:12:04 node-7 kernel: [12345.678901] {}",
    "RFC 5424": "<3>1 2026-11-12T15:12:04.123456Z node-7 kernel - - - {}",
    "busybox": "Nov 12 15:12:04 node-7 kern.err kernel: [12345.678901] {}",
    "with priority": "<3>Nov 12 15:12:04 node-7 kernel: {}",
}
RETOLD = (
    "[Nov12 15:08] booted\n[  +0.500000] up\n[Nov12 15:10] {}\n",
    "[<    0.000000>] booted\n[<    0.500000>] {}\n",
    '{"dmesg": [\n {"pri": 6, "time": 5.0, "msg": "a"},{"pri": 3, "time": 6.5, "msg": "{}"}]}',
    "====1794496324.123456-D\nPanic#1 Part1\n<3>[  125.000000] {}\nPanic#1 Part2\n<6>[    5.0000] up",
)
CROOKED = (b"\n", b"{", b"}", b'"', b"[", b"]", b"9" * 30, b"\0", b": ", b"\x1e", b"=")


def crooked(changed: bytearray, at: int, random_: random.Random) -> None:
    changed[at:at] = random_.choice(CROOKED)


def read(_: bytes, data: bytes, __: random.Random) -> bool:
    try:
        log = parse_log(data.decode("utf-8", "surrogateescape"), ended=ENDED)
    except Unparsable:
        return False
    assert all(isinstance(it.at, float) and 0 <= it.level < 8 for it in log.lines)
    return True


def fuzz(times: int, seed: int) -> int:
    """How many of the damaged logs still had lines."""
    seeds = [f"{text}\n".replace("{}", RESET).encode() * 3 for text in AS_WRITTEN.values()]
    seeds += [f"{text}\n".replace("{}", RESET).encode() for text in RETOLD]
    return fuzzing.tried(times, seed, seeds, lambda it, random_: fuzzing.damaged(it, random_, crooked), read)


if __name__ == "__main__":
    fuzzing.main(fuzz)
