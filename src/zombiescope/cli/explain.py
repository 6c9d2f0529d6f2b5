"""What a sign, law, question, remedy or probe means; with --map, what can cause what."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from importlib import import_module
from types import ModuleType

from zombiescope.cli._arguments import add_optional, add_output, complete
from zombiescope.cli._causal_map import FORMATS, causal_map
from zombiescope.cli._knowledge import add_knowledge, use_knowledge
from zombiescope.cli._parser import did_you_mean
from zombiescope.cli._tables import write_table
from zombiescope.core import UserError, harmless
from zombiescope.members.rooms import healthy, names

ROOMS = ("signs", "laws", "questions", "remedies", "probes")
KINDS = {"signs": "sign", "laws": "law", "questions": "question", "remedies": "remedy", "probes": "probe"}
DRAWINGS = ("dot", "svg")
EXAMPLES = """examples:
  zombiescope explain saturated_core     what it is, why it hurts, false alarms, thresholds and their reasons
  zombiescope explain                    every name, with one line each
  zombiescope explain --symptom "exec hangs"     which signs explain what you see
  zombiescope explain --map              every cause and effect that is known
  zombiescope explain --map --format svg -o map.svg

exit codes: 0 shown, 2 usage
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    add_optional(parser, "name", "a sign, law, question, remedy or probe")
    parser.add_argument("--symptom", metavar="WORDS", help="the signs that explain what you see: 'dns takes 5 s'")
    parser.add_argument("--map", action="store_true", help="the causal map: every sign, and the laws that link them")
    parser.add_argument(
        "--format", choices=FORMATS, default="text", help="output format; dot and svg need --map [text]"
    )
    add_output(parser)
    complete(parser, name=ROOMS)
    add_knowledge(parser)


def run(args: argparse.Namespace) -> int:
    use_knowledge(args)
    if args.symptom is not None:
        print(_explaining(args.symptom, args.format))
    elif args.map:
        print(causal_map(args.format))
    elif args.format in DRAWINGS:
        raise UserError(f"--format {args.format} needs --map")
    elif args.name:
        found = _members(args.name)
        if args.format == "json":
            first, *others = (_shape(room, args.name, member) for room, member in found)
            print(json.dumps(first | ({"also": others} if others else {}), indent=1))
        else:
            print("\n\n".join(_in_words(room, args.name, member) for room, member in found))
    else:
        _write_everything(args.format)
        _tell_of_broken()
    return 0


def _explaining(words: str, style: str) -> str:
    from zombiescope.diagnosis.describe import describe
    from zombiescope.knowledge.symptoms import alike, symptoms

    found, signs = alike(words), healthy("signs")
    if not found:
        known = "; ".join(it.seen for it in symptoms())
        raise UserError(f"{harmless(words)!r}: no symptom like that; there are: {known}")
    if style == "json":
        return json.dumps([{"seen": it.seen, "signs": list(it.signs)} for it in found], indent=1)
    lines = []
    for it in found:
        lines += [it.seen, *(f"  {name}\t{describe(signs[name]).summary}" for name in it.signs if name in signs)]
    return "\n".join(lines)


def _members(name: str) -> list[tuple[str, ModuleType]]:
    """All of that name: a sign and a probe may share one."""
    from zombiescope.diagnosis.settings import ENGINE

    known: dict[str, list[tuple[str, ModuleType]]] = {}
    for room in ROOMS:
        for found, member in healthy(room).items():
            known.setdefault(found, []).append((room, member))
    for found, module in ENGINE.items():
        known.setdefault(found, [("engine", import_module(module))])
    if name in known:
        return known[name]
    meant = did_you_mean([name], known, most=3)
    raise UserError(f"{harmless(name)!r}: no such name" + (meant or "; `zombiescope explain` lists all"))


def _tell_of_broken() -> None:
    """What is there and cannot be used, and why: its name is missing above."""
    from zombiescope.diagnosis.broken import broken

    for where, why in broken(ROOMS).items():
        print(f"broken: {harmless(where)}: {harmless(why, most=1000)}", file=sys.stderr)


def _shape(room: str, name: str, member: ModuleType) -> dict[str, object]:
    from zombiescope.diagnosis.describe import describe

    words = describe(member)
    thresholds = [{"name": it.name, "value": it.value, "reason": it.reason} for it in words.thresholds]
    said = {"name": name, "room": room, "summary": words.summary, "sections": words.sections}
    return said | {"thresholds": thresholds, "laws": _joined(room, name)}


def _joined(room: str, name: str) -> list[str]:
    return [law for law in names("laws") if room == "signs" and name in law.split("_to_")]


def _in_words(room: str, name: str, member: ModuleType) -> str:
    from zombiescope.diagnosis.describe import describe

    words, joined = describe(member), _joined(room, name)
    lines = [f"{name} ({KINDS.get(room, room)})", "", *textwrap.wrap(words.summary, 100)]
    for heading, text in words.sections.items():
        lines += ["", *textwrap.wrap(f"{heading}: {text}", 100, subsequent_indent="  ")]
    for threshold in words.thresholds:
        reason = f"   {threshold.reason}" if threshold.reason else ""
        lines += [
            *([""] if threshold is words.thresholds[0] else []),
            f"  {threshold.name} = {threshold.value:g}{reason}",
        ]
    if joined:
        lines += ["", "linked by: " + ", ".join(joined)]
    return "\n".join(lines)


def _write_everything(style: str) -> None:
    from zombiescope.diagnosis.describe import describe

    rows = [(room, name, describe(member).summary) for room in ROOMS for name, member in healthy(room).items()]
    if style == "json":
        print(json.dumps([{"room": room, "name": name, "summary": summary} for room, name, summary in rows], indent=1))
    elif sys.stdout.isatty():  # the name first: it is what one types next
        write_table(("name", "is a", "in one line"), [(name, KINDS[room], summary) for room, name, summary in rows])
    else:
        write_table((), rows)
