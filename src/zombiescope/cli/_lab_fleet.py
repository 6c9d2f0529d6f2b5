"""`lab fleet`: a simulated fleet in a folder of its own, to try `zombiescope fleet` on, with its truth beside it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from zombiescope.cli._arguments import FOLDER, complete
from zombiescope.cli._looking import duration

STORIES = ("incident", "kernel", "driver", "collinear", "two", "canary", "null")
MOST_NODES = 200_000


def add_simulation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="a new or empty folder")
    parser.add_argument("--nodes", type=_count(1, MOST_NODES), default=1000, metavar="N", help="how many nodes [1000]")
    parser.add_argument("--hours", type=duration("hours", 24 * 31), default=12.0, metavar="T", help="for how long [12]")
    parser.add_argument(
        "--seed", type=_count(0, 2**31), default=1, metavar="S", help="the same seed, the same fleet [1]"
    )
    parser.add_argument(
        "--story",
        choices=STORIES,
        default=STORIES[0],
        help="what makes nodes sick: the incident's agent, a kernel, a driver; collinear: nothing separates two "
        "candidates; two: two causes; canary: half of the sick are cured midway; null: chance alone [incident]",
    )
    every = "time between two readings: whole seconds, or 90s, 10m [10]"
    parser.add_argument("--every", type=duration("seconds", 600.0), default=10.0, metavar="T", help=every)
    real = "a real recording as one more node, such as `lab run NAME --record DIR` makes; may be given several times"
    parser.add_argument("--with", dest="recordings", action="append", default=[], metavar="DIR", help=real)
    complete(parser, folder=FOLDER, recordings=FOLDER)


def simulated(args: argparse.Namespace) -> int:
    from zombiescope.fleet.simulated.fleet import TRUTH, simulate

    watched = sys.stderr.isatty()

    def say(text: str) -> None:
        if watched:
            print(f"\r{text} ", end="", file=sys.stderr, flush=True)

    hours, every = max(1, round(args.hours)), max(1, round(args.every))
    truth = simulate(args.folder, args.nodes, hours, args.seed, args.story, every, recordings=args.recordings, say=say)
    if watched:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    real = f" and {len(args.recordings)} recorded" if args.recordings else ""
    sick = f"{len(truth['sick']):,} sick"
    print(f"{args.folder}: {args.nodes:,} nodes{real}, {hours} hours, {sick}; the truth is in {TRUTH}")
    return 0


def _count(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text[:12]) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
        return int(text)

    return read
