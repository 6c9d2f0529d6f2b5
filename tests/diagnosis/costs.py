"""Findings of known cost, made for the purpose: signs that find them, and laws that join them by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from tests.diagnosis.test_examine import PROOF, law, member
from tests.nodes import T0, cores, node, read

from zombiescope.core import Case, Finding, Span
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine

GIB = 1 << 30
MEMORY = 64 * GIB
SPAN = Span(T0, T0 + 10)
LOOKED = node(
    [
        *cores({cpu: [{"user": 0.5}] * 40 for cpu in range(4)}),
        *(read("memory_total_bytes", "node", MEMORY, at) for at in (0.0, 10.0)),
        *(read("seen", "node", 1, at) for at in (0.0, 10.0)),
    ]
)


def part(
    figure: str,
    amount: float,
    who: str = "process:trainer[7]",
    *,
    span: Span = SPAN,
    contended: float | None = 1.0,
    **rest: Any,
) -> Part:
    rest["contended"] = contended if figure == "burnt" else None
    return Part(figure=figure, amount=amount, who=who, span=span, **rest)


def costing(*parts: Part, **figures: object) -> Harm:
    return Harm(parts=parts, **figures)  # type: ignore[arg-type]


def sign(harm: Harm, *, subject: str = "thing:0", span: Span = SPAN, symptom: bool = False) -> ModuleType:
    def find(timeline: Timeline) -> Iterator[Finding]:  # noqa: ARG001
        yield Finding(subject=subject, span=span, says="is seen", evidence=PROOF, harm=harm)

    return member(NEEDS=("seen",), find=find, SYMPTOM=symptom)


def case(
    joined: str = "",
    harms: Mapping[str, Harm] | None = None,
    *,
    since: float = 0.0,
    timeline: Timeline = LOOKED,
    **others: Harm | ModuleType,
) -> Case:
    """Signs of these names and costs; `joined` names laws, such as "leak_to_walk walk_to_core"."""
    signs = {name: sign(it) if isinstance(it, Harm) else it for name, it in {**(harms or {}), **others}.items()}
    laws = {name: law("mechanism") for name in joined.split()}
    return examine(timeline, signs=signs, laws=laws, questions={}, remedies={}, since=since)
