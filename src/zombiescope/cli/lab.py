"""Faults that really happen on this machine, cleaned up afterwards: to learn the tool, and to measure it.

Each scenario has a known truth. `run --diagnose` makes one happen, diagnoses it with this very command and says whether
the truth was told; `score` does so for all of them, several times in random order.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from contextlib import ExitStack
from types import ModuleType

from zombiescope.core import UserError
from zombiescope.core.rooms import healthy, names

EXAMPLES = """examples:
  zombiescope lab list                                 what there is, and what each needs
  zombiescope lab run throttled --diagnose             make it happen, and see whether it is told
  zombiescope lab run zombie_walk --keep 120           keep it for two minutes, for a look with other tools
  zombiescope lab run crash_loop --record ./rec        record it, and diagnose the recording when it is over
  zombiescope lab score --runs 3 --format json         all of them, three times each
  zombiescope lab clean                                remove what a killed run left behind

exit codes: 0 the truth was told, 1 it was not, 2 usage
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="verb", required=True, metavar="list|run|score|clean")
    listing = acts.add_parser("list", help="every scenario")
    running = acts.add_parser("run", help="make one happen")
    running.add_argument("name", metavar="NAME", help="see `lab list`")
    running.add_argument("--diagnose", action="store_true", help="diagnose it while it happens")
    running.add_argument("--record", metavar="DIR", default="", help="record it, and diagnose the recording afterwards")
    running.add_argument("--keep", type=float, metavar="SECONDS", default=0.0, help="keep it so long [30]")
    scoring = acts.add_parser("score", help="all of them, judged")
    scoring.add_argument("--runs", type=int, default=1, metavar="K", help="how often each [1]")
    scoring.add_argument("--only", default="", metavar="A,B", help="these scenarios; `controls` are the innocent ones")
    acts.add_parser("clean", help="remove what a killed run left behind")
    for one in (running, scoring):
        one.add_argument("--scale", type=float, default=1.0, metavar="N", help="times the usual size [1]")
    for one in (listing, scoring):
        one.add_argument("--format", choices=("text", "json"), default="text", help="[text]")


def run(args: argparse.Namespace) -> int:
    # Told to end, it takes away what it made first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return {"list": _list, "run": _run, "score": _score, "clean": _clean}[args.verb](args)


def _list(args: argparse.Namespace) -> int:
    from zombiescope.lab._scenario import missing

    rows = [
        {
            "name": name,
            "truth": " → ".join(it.TRUTH.chain) or it.TRUTH.root or "nobody is to blame",
            "says": (it.__doc__ or "").split("\n")[0],
            "missing": missing(it.NEEDS),
        }
        for name, it in healthy("lab").items()
    ]
    if args.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    for row in rows:
        print(row["name"], row["truth"], row["says"], "; ".join(row["missing"]) or "ready", sep="\t")
    return 0


def _run(args: argparse.Namespace) -> int:
    from zombiescope.lab._bench import diagnosed

    scenario = _scenario(args.name)
    if not args.diagnose and not args.record:
        with ExitStack() as stack:
            fault = stack.enter_context(scenario.run(args.scale))
            print(f"{fault.says}; look for {fault.subject} (Ctrl-C ends it)", file=sys.stderr)
            time.sleep(args.keep or 30.0)
        return 0
    one = diagnosed(args.name, scenario, args.scale, args.record)
    for chain in one.told["chains"]:
        print(" → ".join(f"{it['sign']} {it['subject']}" for it in chain))
    print(f"{one.judgement.outcome}{': ' if one.judgement.why else ''}{one.judgement.why} ({one.seconds:.0f} s)")
    return 0 if one.judgement.right else 1


def _score(args: argparse.Namespace) -> int:
    from zombiescope.lab._bench import Run, score, table
    from zombiescope.lab._judge import OUTCOMES
    from zombiescope.lab._scenario import missing

    wanted = [it for it in args.only.split(",") if it]
    chosen = {
        name: it
        for name, it in healthy("lab").items()
        if not wanted or name in wanted or ("controls" in wanted and not it.TRUTH.root)
    }
    if unknown := [it for it in wanted if it not in chosen and it != "controls"]:
        raise UserError(f"no scenario is called {unknown[0]!r}; there are {', '.join(names('lab'))}")
    for name, it in list(chosen.items()):
        if lacking := missing(it.NEEDS):
            print(f"left out: {name} needs {'; '.join(lacking)}", file=sys.stderr)
            del chosen[name]

    def say(one: Run) -> None:
        print(f"{one.name}: {one.judgement.outcome} {one.judgement.why}", file=sys.stderr)

    runs = score(chosen, args.runs, args.scale, say)
    rows = list(table(runs))
    if args.format == "json":
        shape = [{"name": name, "outcomes": counts, "median_seconds": round(took, 1)} for name, counts, took in rows]
        print(json.dumps({"runs": args.runs, "right": _right(runs), "of": len(runs), "scenarios": shape}, indent=1))
    else:
        print("scenario", *OUTCOMES, "seconds", sep="\t")
        for name, counts, took in rows:
            print(name, *(counts.get(outcome, 0) for outcome in OUTCOMES), f"{took:.0f}", sep="\t")
        print(f"{_right(runs)} of {len(runs)} right")
    return 0 if all(one.judgement.right for one in runs) else 1


def _right(runs: list) -> int:  # type: ignore[type-arg]
    return sum(one.judgement.right for one in runs)


def _clean(args: argparse.Namespace) -> int:  # noqa: ARG001
    from zombiescope.lab._litter import clean

    removed = clean()
    print("\n".join(removed) or "nothing to remove")
    return 0


def _scenario(name: str) -> ModuleType:
    from zombiescope.lab._scenario import missing

    found = healthy("lab").get(name)
    if found is None:
        raise UserError(f"no scenario is called {name!r}; there are {', '.join(names('lab'))}")
    if lacking := missing(found.NEEDS):
        raise UserError(f"{name} cannot happen here: it needs {'; '.join(lacking)}")
    return found
