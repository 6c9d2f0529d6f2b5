"""The case as a graph for Graphviz: findings as boxes, links as arrows with their grounds."""

from __future__ import annotations

from typing import TextIO

from zombiescope.core import Case, harmless
from zombiescope.core.timeline import Timeline


def write(case: Case, timeline: Timeline, out: TextIO) -> None:
    roots = case.root_causes
    index = {finding: number for number, finding in enumerate(case.findings)}
    out.write(f"digraph {_quoted(case.node or 'node')} {{\n")
    out.write('  rankdir=LR; node [shape=box, fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];\n')
    for finding, number in index.items():
        style = ", style=bold, color=red" if finding in roots else ""
        label = _quoted(f"{finding.sign}\n{finding.subject}\n{finding.says}")
        out.write(f"  f{number} [label={label}{style}];\n")
    for link in case.links:
        label = _quoted("\n".join(f"{ground.kind}: {ground.says}" for ground in link.grounds))
        out.write(f"  f{index[link.cause]} -> f{index[link.effect]} [label={label}];\n")
    out.write("}\n")


def _quoted(text: str) -> str:
    lines = [harmless(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
