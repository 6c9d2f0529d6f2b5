"""Which cause a chain follows: findings and links as a graph, gone through once for each case.

What led to another of the causes is no rival of it but an earlier stage of the same story, however strong its own
link is: the chain goes through all stages, so the nearest cause comes first. Between rivals the strongest wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zombiescope.core.model import Finding, Link


class Story:
    """Findings by number: comparing them by all their evidence would take longer than finding them."""

    def __init__(self, findings: Sequence[Finding], links: Sequence[Link]) -> None:
        self._findings = findings
        self._numbers: dict[Finding, int] = {}
        for finding in findings:
            self._numbers.setdefault(finding, len(self._numbers))
        self._into: dict[int, list[tuple[int, Link]]] = {}
        self._causes: set[int] = set()
        for link in links:
            cause, effect = (self._numbers.setdefault(it, len(self._numbers)) for it in (link.cause, link.effect))
            self._into.setdefault(effect, []).append((cause, link))
            self._causes.add(cause)
        self._before: dict[int, set[int]] = {}

    def causes_of(self, finding: Finding) -> list[Link]:
        return [link for _, link in self._sorted(self._numbers.get(finding, -1))]

    def rivals_of(self, finding: Finding) -> list[Link]:
        links = self._sorted(self._numbers.get(finding, -1))
        return [link for cause, link in links[1:] if cause not in self._led_to(links[0][0])]

    def chains(self) -> list[tuple[Finding, ...]]:
        best = {effect: self._sorted(effect)[0] for effect in self._into}
        by_number = {number: finding for finding, number in self._numbers.items()}
        chains = []
        for last in self._findings:
            number = self._numbers[last]
            if number in self._causes:
                continue
            chain = [number]
            while chain[0] in best and best[chain[0]][0] not in chain:
                chain.insert(0, best[chain[0]][0])
            chains.append(tuple(by_number[it] for it in chain))
        return sorted(chains, key=lambda chain: (-len(chain), chain[-1].span.start))

    def _sorted(self, effect: int) -> list[tuple[int, Link]]:
        links = self._into.get(effect, [])
        causes = {cause for cause, _ in links}
        earlier = {cause for cause in causes if any(cause in self._led_to(other) for other in causes - {cause})}
        return sorted(links, key=lambda it: (it[0] not in earlier, it[1].strength, len(it[1].grounds)), reverse=True)

    def _led_to(self, finding: int) -> set[int]:
        """All that a finding followed from, directly or through others."""
        if finding not in self._before:
            found: set[int] = set()
            fresh = {finding}
            while fresh:
                fresh = {cause for it in fresh for cause, _ in self._into.get(it, ())} - found
                found |= fresh
            self._before[finding] = found - {finding}
        return self._before[finding]
