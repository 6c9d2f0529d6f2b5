"""Live and dead cgroups, by controller.

A cgroup whose folder is gone but which the kernel still keeps is dead: a zombie. Counts every controller of every
hierarchy, v1 and v2, at the same small cost whatever the number of the dead.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from zombiescope.cli._looking import add_exit_style, look, recorded_root, seconds
from zombiescope.core import Host, UserError, amount, harmless, lasting
from zombiescope.core.errors import BLIND, CLEAR, EXIT_STYLES

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline

PROBES = ("cgroup_folders", "cgroup_mounts", "cgroup_stat", "cpu_possible", "meminfo", "proc_cgroups", "uptime")
EXAMPLES = """examples:
  zombiescope census                              a table
  zombiescope census --controller memory --format json
  zombiescope census --seconds 60                 also how fast the dead grow, over a minute
  zombiescope census --exit-style nagios          as a check: critical from 1,000 dead

exit codes: 0 counted, 3 could not count; with --exit-style, those of a check
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--controller", metavar="C", help="one controller only, such as memory")
    parser.add_argument("--seconds", type=seconds, default=0.0, metavar="N", help="measure growth for so long [0]")
    parser.add_argument("--root", metavar="DIR", help="a recorded root instead of this machine")
    parser.add_argument("--format", choices=("text", "json", "tsv"), default="text", help="[text]")
    add_exit_style(parser, None)


def run(args: argparse.Namespace) -> int:
    timeline = look(recorded_root(args.root) if args.root else Host(), args.seconds, PROBES)
    result = shape(timeline, args.controller)
    writer = {"json": _json, "tsv": _tsv, "text": _text}[args.format]
    writer(result)
    for reason in result["blind"]:
        print(f"blind: {harmless(reason)}", file=sys.stderr)
    counted = any(row["dying"] is not None for row in result["controllers"].values())
    if args.exit_style is None:
        return CLEAR if counted else BLIND
    from zombiescope.signs.zombie_cgroups import MANY

    dead = max((row["dying"] or 0 for row in result["controllers"].values()), default=0)
    return EXIT_STYLES[args.exit_style]["found" if dead >= MANY else "clear" if counted else "blind"]


def shape(timeline: Timeline, controller: str | None = None) -> dict[str, Any]:
    """The census as JSON has it."""
    from zombiescope.core.census import bytes_held, count, uncounted

    counted = count(timeline)
    rows: dict[str, dict[str, int | None]] = {
        name: {"known": round(census.known), "live": round(census.live), "dying": round(census.dead)}
        for census in counted
        for name in census.controllers
    }
    for name in uncounted(timeline):
        known = timeline.series("cgroups_known", f"controller:{name}").latest
        rows[name] = {"known": round(known.value), "live": None, "dying": None}
    if controller is not None and rows and controller not in rows:
        raise UserError(f"no controller is called {controller!r} here; there are {', '.join(sorted(rows))}")
    watched = controller or "memory"
    census = next((it for it in counted if watched in it.controllers), None)
    uptime = timeline.series("uptime_seconds")
    measured = census is not None and len(census.dying) > 1
    growth = census.growth_per_hour if census and measured else 0.0
    if census and not measured and len(uptime):
        growth = census.dead / max(uptime.latest.value / 3600, 1e-3)
    return {
        "hierarchy": _hierarchy(timeline),
        "controllers": dict(sorted(row for row in rows.items() if controller in (None, row[0]))),
        "bytes_held": round(bytes_held(timeline, census.dead)) if census and watched == "memory" else 0,
        "growth_per_hour": round(growth, 2),
        "growth_over_seconds": round(
            census.dying.span.seconds if census and measured else uptime.latest.value if len(uptime) else 0
        ),
        "blind": _blind(timeline),
    }


def _hierarchy(timeline: Timeline) -> str:
    """By what is mounted, never by guess."""
    versions = {int(reading.value) for reading in timeline.latest("cgroup_version")}
    return {frozenset({1}): "v1", frozenset({2}): "v2", frozenset({1, 2}): "hybrid"}.get(frozenset(versions), "none")


def _blind(timeline: Timeline) -> list[str]:
    """What could not be counted, and why. No cgroup2 mount is no blindness where v1 has it all."""
    whats = ("cgroup_folders", "cgroups_known", "cgroup_version", "cgroup_dying_descendants")
    looks = [timeline.looks(what).latest for what in whats if len(timeline.looks(what))]
    reasons = [f"{look.source}: {look.text}" for look in looks if look.text and "no cgroup2" not in look.text]
    return list(dict.fromkeys(reasons))


def _json(result: dict[str, Any]) -> None:
    print(json.dumps(result, indent=1))


def _tsv(result: dict[str, Any]) -> None:
    print("controller\tknown\tlive\tdying")
    for name, row in result["controllers"].items():
        print(
            "\t".join(
                [harmless(name), *("" if row[key] is None else str(row[key]) for key in ("known", "live", "dying"))]
            )
        )


def _text(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("controller")
    for heading in ("known", "live", "dying"):
        table.add_column(heading, justify="right")
    for name, row in result["controllers"].items():
        figures = ["?" if row[key] is None else f"{row[key]:,}" for key in ("known", "live", "dying")]
        table.add_row(harmless(name), *figures, style="bold red" if (row["dying"] or 0) >= 1000 else "")
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"hierarchy: {result['hierarchy']}")
    console.print(table)
    if result["bytes_held"]:
        console.print(f"the dead of memory hold about {amount(result['bytes_held'])} of kernel memory")
    if result["growth_over_seconds"]:
        over = lasting(result["growth_over_seconds"])
        console.print(f"growth: {result['growth_per_hour']:+,.1f} an hour, over {over}")
