"""The flight recorder: stacks and readings of this node, rolling, into a folder, until Ctrl-C.

Keeps the last --hours, and never more than --max-bytes; the oldest data is dropped first. A kill -9 at any moment loses
at most one second, a crash of the machine at most five. The folder can be copied to any machine and given to
`diagnose`. Only you can read it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from zombiescope.cli._arguments import FOLDER, add_repeatable, complete
from zombiescope.cli._looking import add_bpf, add_hertz, add_host, duration, host_of

if TYPE_CHECKING:
    from zombiescope.core import Reading

EXAMPLES = """examples:
  zombiescope record /var/lib/zombiescope             keep the last 12 hours, at most 2 GB
  zombiescope record ./rec --for 2m                   stop after two minutes
  zombiescope record ./rec --hours 48 --max-bytes 8G --hz 99
  zombiescope record ./rec --no-user                  without stacks of programs, kernel only
  zombiescope record /rec --host /host                in a pod with hostPID: the node whose / is mounted at /host

then: `zombiescope diagnose ./rec`, `zombiescope view ./rec --open`, `zombiescope info ./rec`
exit codes: 0 recorded, 2 usage, or no room within --max-bytes
"""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="folder of the recording; created if missing")
    parser.add_argument(
        "--hours",
        type=duration("hours", 1e5),
        default=12.0,
        metavar="T",
        help="how much to keep: hours, or 90m, 2d [12]",
    )
    parser.add_argument(
        "--max-bytes", type=_bytes, default=2 * 10**9, metavar="B", help="size limit on disk: 500M, 2G [2G]"
    )
    add_hertz(parser, 49, "stack samples per second on each core, 0 for none [49]")
    parser.add_argument("--no-user", action="store_true", help="record only the kernel part of each stack")
    parser.add_argument(
        "--for",
        dest="length",
        type=duration("seconds", 1e9),
        default=float("inf"),
        metavar="T",
        help="stop after this long: seconds, or 90s, 2m, 1h [until Ctrl-C]",
    )
    parser.add_argument(
        "--budget",
        type=_share,
        default=None,
        metavar="P",
        help="CPU that all of it may use, in percent of one core; 0: no limit [1%%; beyond 48 cores 0.02%% of each]",
    )
    parser.add_argument(
        "--alarms", action="store_true", help="print a line of JSON when a container or a unit crashes, at once"
    )
    for option, words in (
        ("--segment", "begin another segment after this long [10m]"),
        ("--settle-late", "leave it for this long to somebody else who settles it, as the agent does [0]"),
    ):
        parser.add_argument(option, type=duration("seconds", 3600), default=0.0, metavar="T", help=words)
    add_host(parser)
    add_bpf(parser)
    add_repeatable(parser, "--set", "MEMBER.CONST=VALUE", "override a threshold, as in diagnose; repeatable")
    complete(parser, folder=FOLDER)


def run(args: argparse.Namespace) -> int:
    host = host_of(args)
    from zombiescope.diagnosis.settings import override
    from zombiescope.recorder.capture import Capture

    settings = override(args.set)
    os.umask(0o077)  # all that is made is private, also folders on the way
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end it cleanly
    status = _status if sys.stderr.isatty() else None
    with Capture(
        host,
        args.folder,
        hours=args.hours,
        most_bytes=args.max_bytes,
        hz=args.hz,
        user=not args.no_user,
        settings=settings,
        budget=args.budget,
        alarm=_alarm if args.alarms else None,
        segment=args.segment,
        settle_late=args.settle_late,
    ) as capture:
        for trouble in capture.blind:
            print(f"blind: {trouble}", file=sys.stderr)
        capture.run(args.length, status, lambda trouble: print(f"\rtrouble: {trouble}", file=sys.stderr, flush=True))
        summary = capture.summary()
    if status is not None:
        print(file=sys.stderr)
    print(summary, file=sys.stderr)
    return 0


def _alarm(reading: Reading) -> None:
    """Whoever does not read it, or has gone, holds up nothing: the reading is in the recording anyway."""
    line = json.dumps({"alarm": reading.what, "subject": reading.subject, "at": reading.at, "text": reading.text})
    with suppress(OSError):
        if not sys.stdout.isatty():  # a terminal would stay so for the shell as well
            os.set_blocking(sys.stdout.fileno(), False)
        os.write(sys.stdout.fileno(), line.encode() + b"\n")


def _share(text: str) -> float:
    found = re.fullmatch(r"(\d{1,5}(\.\d{1,6})?)\s?%?", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of one core: write it as 1% or 0.5%")
    return float(found[1]) / 100


def _status(line: str) -> None:
    print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d{1,15})([kmgt]?)b?", text.lower())
    if not found or int(found[1]) * _UNITS[found[2]] < 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write it as 500M or 2G, at least 1M")
    return int(found[1]) * _UNITS[found[2]]
