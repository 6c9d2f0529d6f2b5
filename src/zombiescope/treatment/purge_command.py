"""One rung of the purge as a separate command, so that it can be shown, run by hand, timed and killed.

    purge_command files|advice|reclaim|files-in-use|reclaim-live|drop-caches [/scope]

The first three drop no more cache than `budget()`, and none of a file that a process writes to.

Does nothing if no more are left than usual. Exit code 0 whatever it freed: what is left is listed with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial

from zombiescope.core import Unparsable, Unreadable, UserError, harmless
from zombiescope.kernel.memcg_walk import walk
from zombiescope.treatment.purge import Freed, chooser, drop_caches, drop_pinning_files, reclaim, unlink_advice

ENOUGH = 14  # dying cgroups that stay in any case: metadata held by the journal, charges cached per core
SHOWN = 5  # lines of each kind; `zombiescope census --names` lists every dying cgroup with what pins it
MOST = 1 << 30  # bytes of cache: read back within 2 to 8 s from a disk of 125 to 500 MB/s
SHARE = 0.01  # of memory: on a small node less is already noticed


def budget() -> int:
    """How much cache may go without disrupting anybody."""
    return min(MOST, int(SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")))


RUNGS: dict[str, Callable[[str], Freed]] = {
    # A service that crashes may write a new log each time: as many files as dying cgroups.
    "files": lambda scope: drop_pinning_files(scope, files=100_000, seconds=120, budget=budget()),
    "advice": unlink_advice,
    "reclaim": lambda scope: reclaim(scope, budget=budget()),
    "files-in-use": partial(drop_pinning_files, files=100_000, seconds=120),
    "reclaim-live": partial(reclaim, allow_live=True),
    "drop-caches": partial(drop_caches, whole_node=True),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="purge_command", description=__doc__)
    parser.add_argument("rung", choices=RUNGS)
    parser.add_argument("scope", nargs="?", default="/", help="dying cgroups at and below this path [/]")
    parser.add_argument(
        "--enough", type=int, default=ENOUGH, metavar="N", help=f"do nothing if no more than N are left [{ENOUGH}]"
    )
    args = parser.parse_args(argv)
    try:
        print("\n".join(harmless(line, most=1000) for line in purged(args.rung, args.scope, args.enough)))
    except (UserError, Unreadable, Unparsable) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def purged(rung: str, scope: str, enough: int) -> list[str]:
    """Run one rung; what was done and what it freed, in lines."""
    chosen = chooser(scope)
    dying = sum(it.dead and chosen(it) for it in walk().cgroups)
    if dying <= enough:
        return [f"{dying:,} dying cgroups are left, no more than usual: nothing to do"]
    done = RUNGS[rung](scope)
    head = f"freed {done.freed:,} of {done.freed + done.left:,} in {done.seconds:.1f} s, {done.left:,} left"
    return [head, *_most("did: ", done.evidence), *_most("left: ", done.why_left)]


def _most(head: str, lines: tuple[str, ...]) -> list[str]:
    """The most important come first."""
    more = [f"{head}and {len(lines) - SHOWN} more like these"] if len(lines) > SHOWN else []
    return [head + line for line in lines[:SHOWN]] + more


if __name__ == "__main__":
    sys.exit(main())
