"""Live and dying cgroups, by controller; with --names each dying cgroup, its parent and what pins it.

A dying cgroup (a zombie) has been removed, but the kernel still holds it. Counting costs the same however many there
are. --names visits each once, about 2 µs of kernel time, in small batches. It needs root, or CAP_BPF and CAP_PERFMON;
without them it uses what is allowed, and says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from zombiescope.cli._arguments import FILE, FOLDER, add_format, complete
from zombiescope.cli._looking import add_exit_style, add_host, add_seconds, host_of, look, recorded_root
from zombiescope.core import Host, UserError, amount, harmless, lasting
from zombiescope.outputs._exit_codes import BLIND, CLEAR, EXIT_STYLES

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline
    from zombiescope.kernel.named_zombies import Named

COUNTERS = (
    "cgroup_controllers",
    "cgroup_folders",
    "cgroup_mounts",
    "cgroup_stat",
    "cpu_possible",
    "meminfo",
    "proc_cgroups",
    "uptime",
)
PROBES = (*COUNTERS, "stat_read")
EXAMPLES = """examples:
  zombiescope census                              how many are live, how many dying
  zombiescope census --controller memory --format json
  zombiescope census --names                      what they were, by family, and what pins them
  zombiescope census --names --family '/docker/*' --format csv
  zombiescope census --names --pinned-by          by the file that pins them
  zombiescope census --seconds 60 --names         also how fast each family grows, over a minute
  zombiescope census --watch                      every cgroup created, removed and released, as it happens
  zombiescope census --exit-style nagios          as a check: critical from 1,000 dying
  zombiescope census --host /host                 in a pod with hostPID: the node whose / is mounted at /host

exit codes: 0 counted, 2 usage, 3 could not count; with --exit-style also whether there are too many
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--controller", metavar="C", help="one controller only, such as memory [all]")
    parser.add_argument("--names", action="store_true", help="name each dying cgroup (memory controller only)")
    parser.add_argument(
        "--family", metavar="F", help="with --names: only families that contain F, or match it as a glob"
    )
    parser.add_argument("--pinned-by", action="store_true", help="with --names: group by what pins them")
    parser.add_argument("--btf", metavar="FILE", help="with --names: this kernel's BTF [/sys/kernel/btf/vmlinux]")
    parser.add_argument(
        "--watch", action="store_true", help="print every cgroup created, removed and released until Ctrl-C"
    )
    add_seconds(parser, 0.0, "measure growth for this long: seconds, or 90s, 10m; with --watch, stop after it [0]")
    parser.add_argument("--root", metavar="DIR", help="a copy of a machine's root instead of this machine [/]")
    add_host(parser)
    add_format(parser, "text", "json", "tsv", "csv")
    add_exit_style(parser, None)
    complete(parser, btf=FILE, root=FOLDER)


def run(args: argparse.Namespace) -> int:
    _check(args)
    host = recorded_root(args.root) if args.root else host_of(args)
    if args.watch:
        from zombiescope.cli._census_watch import stream
        from zombiescope.kernel.cgroup_events import memory_hierarchy

        stream(memory_hierarchy(host), args.seconds, args.format)
        return CLEAR
    before = _named(args, host) if args.names and args.seconds else None
    timeline = look(host, args.seconds, PROBES if host.live else COUNTERS)
    result = shape(timeline, args.controller)
    result |= _names(args, host, before)
    if result["bytes_held"] and (each := result.get("bytes_each_measured")):  # as it is here, not as it usually is
        result["bytes_held"] = each * (result["controllers"]["memory"]["dying"] or 0)
    _write(args, result)
    for reason in result["blind"]:
        print(f"blind: {harmless(reason)}", file=sys.stderr)
    counted = any(row["dying"] is not None for row in result["controllers"].values())
    if args.exit_style is None:
        return CLEAR if counted else BLIND
    from zombiescope.signs.zombie_cgroups import MANY

    dying = max((row["dying"] or 0 for row in result["controllers"].values()), default=0)
    return EXIT_STYLES[args.exit_style]["found" if dying >= MANY else "clear" if counted else "blind"]


def _check(args: argparse.Namespace) -> None:
    if (args.family or args.pinned_by or args.btf or args.format == "csv") and not args.names:
        raise UserError("--family, --pinned-by, --btf and --format csv need --names")
    if args.names and args.controller not in (None, "memory"):
        raise UserError("--names reads memory cgroups only: give --controller memory, or leave it out")
    if args.root and args.host:
        raise UserError("--host and --root exclude each other: --host is a live node, --root a copy of one")
    if args.root and (args.names or args.watch):
        raise UserError("--names and --watch need a live machine: a copied root has no names of dying cgroups")


def _named(args: argparse.Namespace, host: Host) -> Named:
    from zombiescope.kernel.named_zombies import named

    watched = sys.stderr.isatty()
    if watched:
        print("naming dying cgroups … ", end="", file=sys.stderr, flush=True)
    try:
        return named(host, args.btf)
    finally:
        if watched:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _names(args: argparse.Namespace, host: Host, before: Named | None) -> dict[str, Any]:
    from zombiescope.cli._census_names import shape as names_shape
    from zombiescope.cli._census_names import without_names

    if not args.names:
        return without_names("not asked for: add --names")
    return names_shape(_named(args, host), before, args.family)


def _write(args: argparse.Namespace, result: dict[str, Any]) -> None:
    from zombiescope.cli._census_names import write_csv, write_text

    if args.format == "csv":
        write_csv(result)
        return
    {"json": _json, "tsv": _tsv, "text": _text}[args.format](result)
    if args.names and args.format == "text":
        write_text(result, args.pinned_by)


def shape(timeline: Timeline, controller: str | None = None) -> dict[str, Any]:
    """The census as JSON has it."""
    from zombiescope.cgroups.census import bytes_held, count, uncounted

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
        raise UserError(f"{controller!r}: no such controller here; there are {', '.join(sorted(rows))}")
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
        "stat_read_seconds": _stat_read(timeline),
        "blind": _blind(timeline),
    }


def _hierarchy(timeline: Timeline) -> str:
    """By what is mounted, never guessed."""
    versions = {int(reading.value) for reading in timeline.latest("cgroup_version")}
    return {frozenset({1}): "v1", frozenset({2}): "v2", frozenset({1, 2}): "hybrid"}.get(frozenset(versions), "none")


def _blind(timeline: Timeline) -> list[str]:
    """What could not be counted, and why. A missing cgroup2 mount is not blind where v1 has everything."""
    whats = ("cgroup_folders", "cgroups_known", "cgroup_version", "cgroup_dying_descendants")
    looks = [timeline.looks(what).latest for what in whats if len(timeline.looks(what))]
    reasons = [f"{look.source}: {look.text}" for look in looks if look.text and "no cgroup2" not in look.text]
    return list(dict.fromkeys(reasons))


def _stat_read(timeline: Timeline) -> float | None:
    """How long the root's memory.stat took to read; None where it was not."""
    took = timeline.series("stat_read_seconds", "file:memory.stat")
    return round(took.latest.value, 6) if len(took) else None


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
        console.print(f"dying memory cgroups hold about {amount(result['bytes_held'])} of kernel memory")
    if result["growth_over_seconds"]:
        over = lasting(result["growth_over_seconds"])
        console.print(f"growth: {result['growth_per_hour']:+,.1f} dying cgroups an hour, over {over}")
