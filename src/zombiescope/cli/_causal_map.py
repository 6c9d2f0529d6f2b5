"""The causal map, every sign and the laws that link them: as a tree to read, as a drawing, and for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

from zombiescope.members.rooms import healthy, names

FORMATS = ("text", "json", "dot", "svg")


def causal_map(style: str) -> str:
    """One of FORMATS."""
    return {"text": _text, "json": _json, "dot": _dot, "svg": _svg}[style]()


def joins() -> list[tuple[str, str, str]]:
    """Each law with its cause and its effect: the name says so. One that is broken joins nothing."""
    return [(law, cause, effect) for law in healthy("laws") for cause, _, effect in (law.partition("_to_"),)]


def _text() -> str:
    """First causes at the left margin, effects below and to the right; each branch is shown once."""
    effects: dict[str, list[str]] = {sign: [] for sign in names("signs")}
    for _, cause, effect in joins():
        effects[cause].append(effect)
    caused = {effect for _, _, effect in joins()}
    lines: list[str] = []
    shown: set[str] = set()
    for sign in (sign for sign, follow in effects.items() if follow and sign not in caused):
        lines += [sign, *_branches(sign, "", effects, shown)]
    alone = [sign for sign, follow in effects.items() if not follow and sign not in caused]
    if alone:
        lines += ["", "no law links these yet:"]
        lines += textwrap.wrap("  ".join(alone), 100, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def _branches(sign: str, indent: str, effects: dict[str, list[str]], shown: set[str]) -> Iterator[str]:
    shown.add(sign)
    for place, effect in enumerate(effects[sign]):
        last = place == len(effects[sign]) - 1
        above = effect in shown and bool(effects[effect])
        yield f"{indent}{'└' if last else '├'}→ {effect}{' … as above' if above else ''}"
        if not above:
            yield from _branches(effect, indent + ("   " if last else "│  "), effects, shown)


def _json() -> str:
    laws = [{"cause": cause, "effect": effect, "law": law} for law, cause, effect in joins()]
    return json.dumps({"signs": names("signs"), "laws": laws}, indent=1)


def _dot() -> str:
    lines = [f"  {sign};" for sign in names("signs")]
    lines += [f"  {cause} -> {effect};" for _, cause, effect in joins()]
    return "\n".join(["digraph map {", "  rankdir=LR; node [shape=box];", *lines, "}"])


def _svg() -> str:
    from zombiescope.diagnosis.describe import describe
    from zombiescope.outputs._map import Arrow, Box, draw

    signs, laws = ({name: describe(it).summary for name, it in healthy(room).items()} for room in ("signs", "laws"))
    boxes = {name: Box(lines=(name,), title=signs.get(name, "")) for name in names("signs")}
    arrows = [Arrow(cause=cause, effect=effect, title=laws.get(law, "")) for law, cause, effect in joins()]
    return draw(boxes, arrows, label="the causal map: causes above their effects", alone=True).rstrip("\n")
