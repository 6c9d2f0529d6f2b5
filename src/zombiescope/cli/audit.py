"""Agents and services: installed, enabled, running, restarting, used, and whether they can restart forever.

Reads unit files, asks systemd over D-Bus where it can, and checks whether each known agent is used here. With --root
it reads an image, or a copy of a machine, and needs no privilege. An agent is called unused only if it is enabled or
running, no active unit needs it, and every sign of its use was checked and is absent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from zombiescope.cli._arguments import FILE, FOLDER, add_format, complete
from zombiescope.cli._knowledge import add_knowledge, use_knowledge
from zombiescope.cli._looking import add_host, host_of
from zombiescope.core import Host, Unreadable, UserError, harmless
from zombiescope.outputs._exit_codes import BLIND, CLEAR, FOUND

if TYPE_CHECKING:
    from zombiescope.audit.packages import Owner
    from zombiescope.audit.survey import Row
    from zombiescope.gate._image import Image

MANY = 100  # cgroups of one known leaker: fewer are work in progress
EXAMPLES = """examples:
  zombiescope audit                       known agents, and every service with a problem
  zombiescope audit --all                 every service
  zombiescope audit --root /mnt/image     an image, before it is rolled out
  zombiescope audit --host /host          in a pod with hostPID: the node whose / is mounted at /host
  zombiescope audit --policy policy.toml  against the list of agents that may run here (see examples/gate/policy.toml)
  zombiescope audit --format json | jq '.units[] | select(.used == "unused")'

exit codes: 0 clear, 1 an agent is unused, a service restarts in a loop or the policy objects, 2 usage,
3 blind: nothing found, but not everything could be read
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", metavar="DIR", help="an image, or a copy of a root, instead of this machine [/]")
    add_host(parser)
    parser.add_argument(
        "--all", action="store_true", help="every service, not only known agents and services with a problem"
    )
    parser.add_argument(
        "--policy",
        metavar="FILE",
        help="TOML, as `gate --allow`: units that may start here, with owner and review date",
    )
    add_format(parser, "text", "json", "tsv")
    complete(parser, root=FOLDER, policy=FILE)
    add_knowledge(parser)


def run(args: argparse.Namespace) -> int:
    use_knowledge(args)
    if args.root and args.host:
        raise UserError("--host and --root exclude each other: --host is a live node, --root an image or a copy")
    if args.root and not os.path.isdir(args.root):
        missing = "not a folder" if os.path.exists(args.root) else "no such folder"
        raise UserError(f"{args.root}: {missing}; --root takes the root of an image or of a copied machine")
    host = Host(args.root, live=False) if args.root else host_of(args)
    result = shape(host, every=args.all, policy=args.policy or "")
    {"text": _text, "json": _json, "tsv": _tsv}[args.format](result)
    objections = any(it["level"] == "error" for it in result["objections"])
    if objections or any(unit["trouble"] for unit in result["units"]):
        return FOUND
    return BLIND if result["blind"] else CLEAR


def shape(host: Host, *, every: bool, policy: str = "") -> dict[str, Any]:
    """The audit as JSON has it: agents first, then services in trouble, then the rest if asked for."""
    from zombiescope import __version__
    from zombiescope.audit.facts import facts
    from zombiescope.audit.survey import Survey
    from zombiescope.gate._image import Image
    from zombiescope.gate._lists import read_allowed

    image = Image(host, allowed=read_allowed(policy) if policy else None)
    blind: list[str] = []
    try:
        seen = image.survey
    except Unreadable as error:
        blind.append(str(error))
        seen = Survey(rows=(), unseen=())
    # An image has no systemd to ask: that is expected, and not blind.
    blind += [str(error) for error in seen.unseen if host.live]
    if not host.live and seen.rows:  # a unit whose file was not read is not clear
        blind += [f"{it.source}: {it.why}" for it in image.unread_units()]
    objections = _against(image, blind) if policy else []
    owned, unowned = _owners(host, [row.path for row in seen.rows if row.path])
    units = [_unit(row, owned.get(row.path)) for row in seen.rows]
    units.sort(key=lambda it: (not it["agent"], not it["trouble"], it["unit"]))
    known = facts(host)
    return {
        "zombiescope": __version__,
        "schema": 1,
        "root": host.root,
        "system": known.system,
        "kernels": list(known.kernels),
        "kernel_lacks": [{"since": it.version, "before": it.fault} for it in known.faults],
        "cgroups": known.cgroups,
        "parameters": list(known.parameters),
        "units": [it for it in units if every or it["agent"] or it["trouble"]],
        "services": len(units),
        "timers": _timers(host),
        "left_behind": {name: count for name, count in seen.left.items() if count >= MANY},
        "packages": unowned,
        "objections": objections,
        "blind": blind,
    }


def _unit(row: Row, owner: Owner | None) -> dict[str, Any]:
    used = row.use.answer if row.use else ""
    known_to_leak = row.agent.leaks if row.agent else ""
    trouble = []
    if row.restarting:
        trouble.append("restarts again and again")
    if used == "unused":
        trouble.append("unused")
    elif row.starts and known_to_leak and row.judged.for_ever and used != "used":
        trouble.append("enabled, known to leak, and can restart forever")
    return {
        "unit": row.unit,
        "agent": row.agent.name if row.agent else "",
        "trouble": trouble,
        "installed": row.path,
        "package": owner.package if owner else "",
        "changed_since_installed": owner.changed if owner else None,
        "enabled": row.enabled,
        "enabled_by": list(row.enabled_by),
        "preset": row.preset,
        "state": row.state,
        "restarts": row.restarts,
        "restarting": row.restarting,
        "restart_policy": {
            "restart": row.policy.restart,
            "pause_seconds": row.policy.pause,
            "start_limit_seconds": row.policy.interval,
            "start_limit_burst": row.policy.burst,
            "prevented_by": list(row.policy.prevented_by),
        },
        "loops_for_ever": row.judged.for_ever,
        "policy_says": row.judged.says,
        "essential": row.essential,
        "used": used,
        "use_says": row.use.says if row.use else "",
        "signs_of_use": [
            {"says": it.sign.says, "held": it.held, "source": it.source} for it in (row.use.seen if row.use else ())
        ],
        "needed_by": list(row.use.needed_by) if row.use else [],
        "known_to_leak": known_to_leak,
        "fix": list(row.agent.fix) if row.agent and trouble else [],
        "references": list(row.agent.references) if row.agent and trouble else [],
    }


def _against(image: Image, blind: list[str]) -> list[dict[str, Any]]:
    """What the policy objects to, by the gate's own rules for allow-lists."""
    from zombiescope.gate._rulings import rulings
    from zombiescope.members.rooms import names

    found = rulings(image, set(names("gate")) - {"stale_allowance", "unknown_unit"})
    unseen = [f"{it.source}: {it.why}" for ruling in found for it in ruling.unseen]
    blind += [it for it in dict.fromkeys(unseen) if it not in blind]
    return [
        {"subject": it.subject, "level": it.level, "says": it.says, "where": it.where, "fix": list(it.fix)}
        for ruling in found
        for it in ruling.objections
    ]


def _owners(host: Host, paths: list[str]) -> tuple[dict[str, Owner], str]:
    from zombiescope.audit.packages import owners

    try:
        return owners(host, paths), ""
    except Unreadable as error:
        return {}, str(error)


def _timers(host: Host) -> list[dict[str, Any]]:
    """Enabled timers that fire often: each run creates and removes a cgroup."""
    from zombiescope.audit.unit_files import UnitFiles
    from zombiescope.knowledge.agents import timers

    try:
        files = UnitFiles(host)
    except Unreadable:
        return []
    paces = {name: files.every(name) for name in files.names("*.timer") if files.unit(name).starts}
    often = timers().often_seconds
    return [{"timer": name, "every_seconds": pace} for name, pace in paces.items() if pace <= often]


def _json(result: dict[str, Any]) -> None:
    print(json.dumps(result, indent=1))


def _tsv(result: dict[str, Any]) -> None:
    columns = ("unit", "agent", "package", "enabled", "state", "restarts", "used", "loops_for_ever", "trouble")
    print("\t".join(columns))
    for unit in result["units"]:
        values = ["; ".join(unit[it]) if it == "trouble" else "" if unit[it] is None else unit[it] for it in columns]
        print("\t".join(harmless(str(value)) for value in values))


def _text(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in _about(result):
        console.print(Text(harmless(line, most=1000), "dim"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("unit", "agent", "package", "enabled", "state", "restarts", "used", "forever"):
        table.add_column(heading, justify="right" if heading == "restarts" else "left", no_wrap=True)
    for unit in result["units"]:
        restarts = "?" if unit["restarts"] is None else f"{unit['restarts']:,}"
        cells = [unit["unit"], unit["agent"], unit["package"] or "–", unit["enabled"] or "–", unit["state"] or "?"]
        cells += [restarts, unit["used"], "yes" if unit["loops_for_ever"] else "no"]
        table.add_row(*(Text(harmless(cell)) for cell in cells), style="bold red" if unit["trouble"] else "")
    if result["units"]:
        whole = console.measure(table, options=console.options.update(max_width=1000)).maximum
        Console(highlight=False, width=max(console.width, whole)).print(table)  # a name cut short cannot be pasted
    for unit in result["units"]:
        for line in _troubles(unit):
            console.print(Text(harmless(line, most=1000)))
    for timer in result["timers"]:
        console.print(
            Text(harmless(f"{timer['timer']} fires every {timer['every_seconds']:g} s: each run creates a cgroup"))
        )
    for name, count in result["left_behind"].items():
        console.print(Text(harmless(f"{count:,} cgroups of {name}, which is known to leave them behind")))
    for it in result["objections"]:
        console.print(Text(harmless(f"policy: {it['subject']}: {it['says']}", most=1000), "bold red"))
        for line in it["fix"]:
            console.print(Text(harmless(f"  fix: {line}")))
    for why in result["blind"]:
        print(f"blind: {harmless(why)}", file=sys.stderr)


def _about(result: dict[str, Any]) -> list[str]:
    kernels = ", ".join(result["kernels"]) or "?"
    said = [f"{result['system'] or 'unknown system'} · Linux {kernels} · cgroups {result['cgroups'] or '?'}"]
    said += [f"this kernel is older than {it['since']}: {it['before']}" for it in result["kernel_lacks"]]
    shown = len(result["units"])
    hidden = f", {shown} of them shown; --all shows every one" if result["services"] > shown else ""
    return [*said, f"{result['services']} services{hidden}"]


def _troubles(unit: dict[str, Any]) -> list[str]:
    if not unit["trouble"]:
        return []
    said = ["", f"{unit['unit']}: {', '.join(unit['trouble'])}", f"  {unit['policy_says']}"]
    if unit["use_says"]:
        said.append(f"  {unit['used']}: {unit['use_says']}")
    marks = {True: "yes", False: "no", None: "blind"}
    said += [f"    {marks[it['held']]:<9}{it['says']}  {it['source']}" for it in unit["signs_of_use"]]
    if unit["known_to_leak"]:
        said.append(f"  known to leak: {unit['known_to_leak']}")
    return [*said, *(f"  fix: {it}" for it in unit["fix"])]
