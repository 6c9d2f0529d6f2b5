"""One rung of the purge as a command of its own, so that it can be shown, run by hand, timed and killed.

    python -m zombiescope.treatment.purge_command files|advice|reclaim|reclaim-live|drop-caches [/scope]

Does nothing where no more are left than is usual. Exit code 0 whatever it freed: what is left is told, with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial

from zombiescope.core import Unparsable, Unreadable, UserError, harmless
from zombiescope.kernel.memcg_walk import walk
from zombiescope.treatment.purge import Freed, drop_caches, drop_pinning_files, reclaim, unlink_advice

ENOUGH = 14  # dead cgroups that stay whatever one does: metadata held by the journal, charges kept on each core
SHOWN = 5  # lines of each kind; `zombiescope census --names` has every one of the dead with what pins it
RUNGS: dict[str, Callable[[str], Freed]] = {
    # One that crashes writes a log of its own each time: as many files as dead cgroups.
    "files": partial(drop_pinning_files, files=100_000, seconds=120),
    "advice": unlink_advice,
    "reclaim": reclaim,
    "reclaim-live": partial(reclaim, allow_live=True),
    "drop-caches": partial(drop_caches, whole_node=True),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="purge_command", description=__doc__)
    parser.add_argument("rung", choices=RUNGS)
    parser.add_argument("scope", nargs="?", default="/", help="the dead at and below this path [/]")
    parser.add_argument("--enough", type=int, default=ENOUGH, metavar="N", help=f"so many may stay [{ENOUGH}]")
    args = parser.parse_args(argv)
    try:
        print("\n".join(harmless(line, most=1000) for line in told(args.rung, args.scope, args.enough)))
    except (UserError, Unreadable, Unparsable) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def told(rung: str, scope: str, enough: int) -> list[str]:
    """What was done and what it brought, in lines."""
    top = scope.rstrip("/")
    dead = sum(it.dead and (it.path == top or it.path.startswith(f"{top}/")) for it in walk().cgroups)
    if dead <= enough:
        return [f"{dead:,} dead cgroups are left, no more than is usual: nothing to do"]
    done = RUNGS[rung](scope)
    head = f"freed {done.freed:,} of {done.freed + done.left:,} in {done.seconds:.1f} s, {done.left:,} left"
    return [head, *_most("did: ", done.evidence), *_most("left: ", done.why_left)]


def _most(head: str, lines: tuple[str, ...]) -> list[str]:
    """Those that mattered most come first."""
    more = [f"{head}and {len(lines) - SHOWN} more like these"] if len(lines) > SHOWN else []
    return [head + line for line in lines[:SHOWN]] + more


if __name__ == "__main__":
    sys.exit(main())
