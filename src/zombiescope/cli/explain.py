"""A sign, law, remedy or probe in words; or, with --map, what can cause what."""

from __future__ import annotations

import argparse
import difflib
import json
import textwrap
from types import ModuleType

from zombiescope.core import UserError
from zombiescope.core.rooms import healthy, names

ROOMS = ("signs", "laws", "remedies", "probes")
EXAMPLES = """examples:
  zombiescope explain saturated_core     what it is, why it hurts, false alarms, thresholds and their reasons
  zombiescope explain                    every name that can be explained
  zombiescope explain --map              every cause and effect we know
  zombiescope explain --map --format dot | dot -Tsvg > map.svg
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a sign, law, remedy or probe")
    parser.add_argument("--map", action="store_true", help="the causal map: every sign, and the laws that join them")
    parser.add_argument("--format", choices=("text", "json", "dot"), default="text", help="[text]; dot is for --map")


def run(args: argparse.Namespace) -> int:
    if args.map:
        print(_map(args.format))
    elif args.format == "dot":
        raise UserError("--format dot is for --map")
    elif args.name:
        room, member = _member(args.name)
        print(_in_words(room, args.name, member, args.format))
    else:
        print(_everything(args.format))
    return 0


def _member(name: str) -> tuple[str, ModuleType]:
    known = {found: (room, member) for room in reversed(ROOMS) for found, member in healthy(room).items()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3)
    raise UserError(f"nothing is called {name!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))


def _in_words(room: str, name: str, member: ModuleType, style: str) -> str:
    from zombiescope.detective.describe import describe

    words = describe(member)
    joined = [law for law in names("laws") if room == "signs" and name in law.split("_to_")]
    if style == "json":
        thresholds = [{"name": it.name, "value": it.value, "reason": it.reason} for it in words.thresholds]
        said = {"name": name, "room": room, "summary": words.summary, "sections": words.sections}
        return json.dumps(said | {"thresholds": thresholds, "laws": joined}, indent=1)
    lines = [f"{name} ({room.rstrip('s')})", "", *textwrap.wrap(words.summary, 100)]
    for heading, text in words.sections.items():
        lines += ["", *textwrap.wrap(f"{heading}: {text}", 100, subsequent_indent="  ")]
    for threshold in words.thresholds:
        reason = f"   {threshold.reason}" if threshold.reason else ""
        lines += [
            *([""] if threshold is words.thresholds[0] else []),
            f"  {threshold.name} = {threshold.value:g}{reason}",
        ]
    if joined:
        lines += ["", "joined by: " + ", ".join(joined)]
    return "\n".join(lines)


def _everything(style: str) -> str:
    from zombiescope.detective.describe import describe

    rows = [(room, name, describe(member).summary) for room in ROOMS for name, member in healthy(room).items()]
    if style == "json":
        return json.dumps([{"room": room, "name": name, "summary": summary} for room, name, summary in rows], indent=1)
    return "\n".join("\t".join(row) for row in rows)


def _map(style: str) -> str:
    signs, laws = names("signs"), names("laws")
    if style == "json":
        edges = [dict(zip(("cause", "effect"), law.split("_to_"), strict=True)) | {"law": law} for law in laws]
        return json.dumps({"signs": signs, "laws": edges}, indent=1)
    if style == "dot":
        lines = [*(f"  {sign};" for sign in signs), *(f"  {law.replace('_to_', ' -> ')};" for law in laws)]
        return "\n".join(["digraph map {", "  rankdir=LR; node [shape=box];", *lines, "}"])
    lines = []
    for sign in signs:
        effects = [law.split("_to_")[1] for law in laws if law.split("_to_")[0] == sign]
        causes = [law.split("_to_")[0] for law in laws if law.split("_to_")[1] == sign]
        lines.append(sign)
        lines += [f"  ← {cause}" for cause in causes] + [f"  → {effect}" for effect in effects]
    return "\n".join(lines)
