"""Whether memory that nothing accounts for is what others lack."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.model import Finding, Ground
from zombiescope.core.words import amount, percent

MUCH = 0.1  # of all memory: with less missing, they would lack memory as well


def lacks_it(missing: Finding, effect: Finding) -> Iterator[Ground]:
    """The whole node lacks memory; a cgroup at its own limit would lack it whatever is missing elsewhere."""
    figures = {it.what: it for it in missing.evidence}
    gone, total = figures.get("memory_unaccounted_bytes"), figures.get("memory_total_bytes")
    if effect.subject == "node" and gone is not None and total is not None and gone.value >= MUCH * total.value:
        share = percent(gone.value / total.value)
        says = f"the node lacks memory, and nothing accounts for {amount(gone.value)} of it, {share}"
        yield Ground(kind="dose", says=says, evidence=(gone, total, effect.evidence[0]))
