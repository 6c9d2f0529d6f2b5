"""Real faults on this machine, cleaned up afterwards: to learn the tool, and to measure it.

The right answer of each scenario is known. `run --diagnose` makes one fault, diagnoses it with this same command and
says whether the answer was right; `score` does so for all scenarios, several times in random order.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from contextlib import ExitStack
from types import ModuleType

from zombiescope.cli._arguments import FOLDER, add_format, complete
from zombiescope.cli._lab_fleet import add_simulation, simulated
from zombiescope.cli._looking import duration
from zombiescope.cli._parser import did_you_mean
from zombiescope.cli._tables import write_table
from zombiescope.core import UserError, harmless
from zombiescope.members.rooms import healthy, names
from zombiescope.places.own_folders import LAB_ENVIRONMENT

EXAMPLES = """examples:
  zombiescope lab list                                 every scenario, and what it still needs
  zombiescope lab run throttled --diagnose             make the fault, and see whether it is found
  zombiescope lab run zombie_walk --keep 2m            keep it for two minutes, to look at it with other tools
  zombiescope lab run crash_loop --record ./rec        record it, and diagnose the recording afterwards
  zombiescope lab score --runs 3 --format json         every scenario, three times
  zombiescope lab score --only short                   a few of each kind, in about two minutes
  zombiescope lab score --beside-load 60               every scenario while an innocent load takes 60 % of every core
  zombiescope lab clean                                remove what a killed run left behind
  zombiescope lab fleet ./fleet --nodes 1000 --hours 12 --seed 7    a simulated fleet, for `zombiescope fleet`

exit codes: 0 the answer was right, 1 it was wrong, 2 usage
"""
MOST = 600  # limit of --keep, --runs and --scale: the lab's own processes end after 600 s


def add_args(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="verb", required=True, metavar="list|run|score|clean|fleet")
    listing = acts.add_parser("list", help="list every scenario")
    running = acts.add_parser("run", help="make one fault happen")
    running.add_argument("name", metavar="NAME", help="a scenario, see `lab list`")
    running.add_argument("--diagnose", action="store_true", help="diagnose it while it happens")
    running.add_argument(
        "--record", metavar="DIR", default="", help="record it to DIR, and diagnose the recording afterwards"
    )
    running.add_argument(
        "--keep",
        type=duration("seconds", MOST),
        metavar="T",
        help="keep the fault for this long, to look at it yourself: seconds, or 90s, 10m [30]",
    )
    scoring = acts.add_parser("score", help="run all scenarios and count right answers")
    scoring.add_argument("--runs", type=_times, default=1, metavar="K", help="runs of each scenario [1]")
    scoring.add_argument(
        "--only",
        default="",
        metavar="A,B",
        help="these scenarios; `controls`: those without a fault, `short`: a few [all]",
    )
    scoring.add_argument(
        "--beside-load",
        type=_share,
        default=0,
        metavar="PERCENT",
        help="with an innocent load beside each, which takes this much of every core [0]",
    )
    says = "record each, kill the recorder, and diagnose what it left when all of the fault has ended"
    scoring.add_argument("--recorded", action="store_true", help=says)
    scoring.add_argument("--seed", type=int, metavar="N", help="repeat the order of an earlier score [random]")
    acts.add_parser("clean", help="remove what a killed run left behind")
    simulating = acts.add_parser("fleet", help="write a simulated fleet into a folder, with its truth beside it")
    add_simulation(simulating)
    for one in (running, scoring):
        one.add_argument(
            "--scale", type=_positive, default=1.0, metavar="N", help="size of the fault, times the usual [1]"
        )
    for one in (listing, scoring):
        add_format(one, "text", "json")
    complete(running, name="lab", record=FOLDER)
    complete(scoring, only="lab")


def run(args: argparse.Namespace) -> int:
    # On SIGTERM it removes what it made first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return {"list": _list, "run": _run, "score": _score, "clean": _clean, "fleet": simulated}[args.verb](args)


def _list(args: argparse.Namespace) -> int:
    from zombiescope.lab._scenario import missing

    rows = [
        {
            "name": name,
            "truth": " and ".join(" → ".join(one.chain) for one in (it.TRUTH, *it.TRUTH.also)) or "no fault",
            "says": (it.__doc__ or "").split("\n")[0],
            "missing": missing(it.NEEDS),
        }
        for name, it in healthy("lab").items()
    ]
    if args.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    write_table(
        ("scenario", "right answer", "what happens", "can run here"),
        [(row["name"], row["truth"], row["says"], "; ".join(row["missing"]) or "ready") for row in rows],
    )
    return 0


def _run(args: argparse.Namespace) -> int:
    from zombiescope.lab._bench import diagnosed

    scenario = _scenario(args.name)
    if args.keep and (args.diagnose or args.record):
        raise UserError("--keep excludes --diagnose and --record: those end the fault when they have seen enough")
    if not args.diagnose and not args.record:
        with ExitStack() as stack:
            fault = stack.enter_context(scenario.run(args.scale))
            print(f"{fault.says}; it concerns {fault.subject} (Ctrl-C ends it)", file=sys.stderr)
            print(f"log lines that it injects count only with {LAB_ENVIRONMENT}=1 in the environment", file=sys.stderr)
            time.sleep(args.keep or 30.0)
        return 0
    one = diagnosed(args.name, scenario, args.scale, args.record)
    for chain in one.told["chains"]:
        print(harmless(" → ".join(f"{it['sign']} {it['subject']}" for it in chain)))
    print(harmless(f"{one.judgement} ({one.seconds:.0f} s)"))
    return 0 if one.judgement.right else 1


def _score(args: argparse.Namespace) -> int:
    from zombiescope.lab._bench import order, table, undisturbed
    from zombiescope.lab._judge import OUTCOMES

    chosen = _chosen([it for it in args.only.split(",") if it])
    seed = args.seed if args.seed is not None else random.randrange(1_000_000)
    if args.beside_load:
        for name in [it for it in chosen if getattr(chosen[it], "ALONE", False)]:
            del chosen[name]
            print(f"skipped: {name} is innocent only where nothing else wants the core", file=sys.stderr)
    print(f"{len(chosen)} scenarios, {args.runs} runs each, order of --seed {seed}", file=sys.stderr)

    def say(text: str) -> None:
        print(harmless(text), file=sys.stderr, flush=True)

    runs, not_made = [], []
    planned = order(chosen, args.runs, seed)
    try:
        for name in planned:
            try:
                how = {"beside": args.beside_load / 100, "killed": args.recorded}
                one = undisturbed(name, chosen[name], args.scale, say, **how)
                runs.append(one)
            except UserError as error:  # a fault that could not be made loses its row, and the score its exit code
                not_made.append({"name": name, "why": str(error)})
                say(f"{name}: the fault could not be made: {error}")
                continue
            say(f"{name}: {one.judgement} ({one.seconds:.0f} s; {one.idle:.1f} cores were idle without it)")
    except KeyboardInterrupt:
        say(f"stopped: this is the score of {len(runs)} runs of {len(planned)}")
    missed = len(planned) - len(runs) - len(not_made)
    rows = list(table(runs))
    faults, controls = ([it for it in runs if bool(chosen[it.name].TRUTH.root) is guilty] for guilty in (True, False))
    totals = {
        "faults": len(faults),
        "faults_right": sum(it.judgement.right for it in faults),
        "controls": len(controls),
        "controls_right": sum(it.judgement.right for it in controls),
        "not_sure": sum(it.judgement.unsure for it in runs),
        "wrong_accusations": sum(it.judgement.outcome == "wrong accusation" for it in runs),
        "beside_load_percent": args.beside_load,
        "runs_left_out": missed,
    }
    if args.format == "json":
        shape = [{"name": name, "outcomes": counts, "median_seconds": round(took, 1)} for name, counts, took in rows]
        each = [
            {
                "name": it.name,
                "outcome": it.judgement.outcome,
                "why": it.judgement.why,
                "seconds": round(it.seconds, 1),
                "idle_cores": round(it.idle, 1),
                "disturbed": it.disturbed,
                # What an answer that was not right rests on: the next run may well be right.
                **({} if it.judgement.right else {"diagnosis": it.told}),
            }
            for it in runs
        ]
        print(json.dumps({"seed": seed, **totals, "scenarios": shape, "runs": each, "not_made": not_made}, indent=1))
    else:
        scored = [
            (name, *(counts.get(outcome, 0) for outcome in OUTCOMES), f"{took:.0f}") for name, counts, took in rows
        ]
        write_table(("scenario", *OUTCOMES, "seconds"), scored, heading_in_pipe=True)
        print(
            "{faults_right} of {faults} faults and {controls_right} of {controls} controls right; "
            "{not_sure} not sure, {wrong_accusations} wrong accusations".format(**totals)
        )
    return 0 if not missed and not not_made and all(one.judgement.right for one in runs) else 1


def _chosen(wanted: list[str]) -> dict[str, ModuleType]:
    """The wanted scenarios that can run here; the others are named on stderr."""
    from zombiescope.lab._scenario import missing

    known = healthy("lab")
    groups = {
        "controls": {name for name, it in known.items() if not it.TRUTH.root},
        "short": {name for name, it in known.items() if getattr(it, "SHORT", False)},
    }
    if unknown := [it for it in wanted if it not in known and it not in groups]:
        raise UserError(_no_scenario(unknown[0], [*known, *groups]))
    meant = set().union(*(groups.get(it, {it}) for it in wanted or known))
    chosen = {}
    for name, it in known.items():
        if name not in meant:
            continue
        if lacking := missing(it.NEEDS):
            print(f"skipped: {name} needs {'; '.join(lacking)}", file=sys.stderr)
        else:
            chosen[name] = it
    if not chosen:
        raise UserError("none of these scenarios can run here: see `zombiescope lab list` for what they need")
    return chosen


def _clean(args: argparse.Namespace) -> int:  # noqa: ARG001
    from zombiescope.lab._litter import clean

    removed = clean()
    print("\n".join(removed) or "nothing to remove")
    return 0


def _scenario(name: str) -> ModuleType:
    from zombiescope.lab._scenario import missing

    found = healthy("lab").get(name)
    if found is None:
        raise UserError(_no_scenario(name, names("lab")))
    if lacking := missing(found.NEEDS):
        raise UserError(f"{name} cannot run here: it needs {'; '.join(lacking)}")
    return found


def _no_scenario(name: str, known: list[str]) -> str:
    return f"{name!r}: no such scenario" + (did_you_mean([name], known) or f"; there are {', '.join(known)}")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to {MOST}")
    return value


def _share(text: str) -> int:
    """Percent of a core. With more than 95 the load itself would be the fault."""
    if not text.isdecimal() or not 0 < int(text[:9]) <= 95:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 95")
    return int(text)


def _times(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:9]) <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST}")
    return int(text)
