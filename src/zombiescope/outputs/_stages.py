"""The chain as a page tells it: each stage with its evidence folded, and between two the grounds that join them."""

from __future__ import annotations

import html
from collections.abc import Sequence

from zombiescope.core import Case, Finding, Ground, Link, Reading, harmless, lasting
from zombiescope.core.commands import typed
from zombiescope.core.timeline import Timeline
from zombiescope.outputs._sparkline import sparklines
from zombiescope.outputs._story import OTHERS, Telling, consistency, ground_figures, ground_kind, number, sentence
from zombiescope.outputs._times import utc

AGAIN = 50  # chains alike that are listed; JSON has them all
EVIDENCE = 60  # readings listed for one claim; JSON has them all


class Stages:
    """Writes stages, and remembers which finding stands where, so that each has one address on the page."""

    def __init__(self, case: Case, timeline: Timeline) -> None:
        self._case, self._timeline = case, timeline
        self._index = {finding: place for place, finding in enumerate(case.findings)}
        self._held = {tally.law: words for tally, words in consistency(case)}
        self._told: set[Finding] = set()

    def address(self, finding: Finding) -> str:
        return f"f{self._index[finding]}"

    def told(self, finding: Finding) -> bool:
        return finding in self._told

    def pointer(self, finding: Finding) -> str:
        """Its name, and a link to where it is described, if it is."""
        name = f'{sign(finding.sign)} <span class="subject">{said(finding.subject, most=60)}</span>'
        return f'<a href="#{self.address(finding)}">{name}</a>' if finding in self._told else name

    def telling(self, telling: Telling) -> str:
        self._told |= set(telling.chain[telling.before :])
        stages = [self._story(telling.chain)] if len(telling.chain) > 1 else []
        stages.append('<ol class="chain">')
        for place, finding in enumerate(telling.chain):
            if place >= telling.before:
                why = self._links(finding) if place else ""
                stages.append(f'<li id="{self.address(finding)}">{why}{self.stage(finding)}</li>')
        stages.append("</ol>")
        if telling.again:
            stages.append(self._again(telling))
        return "\n".join(stages)

    def stage(self, finding: Finding) -> str:
        self._told.add(finding)
        charts = "\n".join(sparklines(finding, self._timeline))
        return (
            f'<article class="stage"><p class="when">{when(finding)}</p>\n'
            f'<h3>{sign(finding.sign)} <span class="subject">{said(finding.subject)}</span></h3>\n'
            f'<p class="says">{said(sentence(finding))}</p>\n'
            + (f'<div class="sparks">{charts}</div>\n' if charts else "")
            + evidence(finding.evidence)
            + "</article>"
        )

    def _story(self, chain: Sequence[Finding]) -> str:
        """The whole chain in one line, each stage a way to its place below."""
        stages = "\n".join(f"<li>{self.pointer(finding)}</li>" for finding in chain)
        return f'<ol class="story" aria-label="the chain in one line">\n{stages}\n</ol>'

    def _links(self, finding: Finding) -> str:
        links, rivals = self._case.causes_of(finding), self._case.rivals_of(finding)
        if not links:
            return ""
        grounds = [_ground(ground) for ground in links[0].grounds]
        for earlier in (link for link in links[1:] if link not in rivals):
            said_so = [it for it in earlier.grounds if it.kind != "order"]
            grounds += [_ground(it, f"straight from {earlier.cause.sign}: ") for it in said_so]
        held = self._held.get(links[0].law)
        told = [self._rival(rival) for rival in rivals[:OTHERS]]
        if len(rivals) > OTHERS:
            told.append(f'<p class="held">… and {len(rivals) - OTHERS} more, in the JSON</p>')
        return (
            '<section class="link" aria-label="why we join them"><ul class="grounds">\n'
            + "\n".join(grounds)
            + "</ul>\n"
            + (f'<p class="held">{said(held)}</p>\n' if held else "")
            + "\n".join(told)
            + "</section>"
        )

    def _rival(self, rival: Link) -> str:
        """A cause that fits too, on no stronger grounds: kept, named, and shown in full to who wants to know."""
        kinds = ", ".join(ground_kind(ground) for ground in rival.grounds)
        cause = rival.cause
        grounds = "\n".join(_ground(ground) for ground in rival.grounds)
        return (
            f'<details class="rival"><summary>other possible cause: {sign(cause.sign)} <span class="subject">'
            f"{said(cause.subject)}</span> ({kinds})</summary>\n"
            f'<p>{said(sentence(cause))}</p><ul class="grounds">\n{grounds}</ul>{evidence(cause.evidence)}</details>'
        )

    def _again(self, telling: Telling) -> str:
        rows = []
        for chain in telling.again[:AGAIN]:
            stages = " → ".join(
                f'<span id="{self.address(finding)}">{sign(finding.sign)} '
                f'<span class="subject">{said(finding.subject, most=60)}</span></span>'
                for finding in chain
            )
            told = "\n".join(self._links(it) + self.stage(it) for it in chain)
            at = utc(chain[0].span.start)
            rows.append(f"<li><details><summary><time>{at}</time> {stages}</summary>{told}</details></li>")
        more = len(telling.again) - AGAIN
        rows += [f"<li>… and {more} more, in the JSON</li>"] * (more > 0)
        times = "once more" if len(telling.again) == 1 else f"{len(telling.again)} times more"
        return f'<section class="again"><h3>It happened {times}</h3><ul>\n' + "\n".join(rows) + "</ul></section>"


def _ground(ground: Ground, whose: str = "") -> str:
    how = badge(ground_kind(ground), ground.kind)
    return f"<li>{how} <span>{said(whose + ground_figures(ground))}</span>{evidence(ground.evidence)}</li>"


def evidence(readings: Sequence[Reading]) -> str:
    """Folded away: each reading with its time, its source to paste into a shell, and the kernel's own words."""
    if not readings:
        return ""
    rows = [
        f"<tr><td><time>{utc(it.at)}</time></td><td><code>{said(it.what)}</code> "
        f'<span class="subject">{said(it.subject)}</span></td><td class="value">{number(it.value)}</td>'
        f"<td><code>{said(typed(it.source))}</code>{_quoted(it.text)}</td></tr>"
        for it in readings[:EVIDENCE]
    ]
    if len(readings) > EVIDENCE:
        rows.append(f'<tr><td colspan="4">… {len(readings) - EVIDENCE} more readings, in the JSON</td></tr>')
    count = "1 reading" if len(readings) == 1 else f"{len(readings)} readings"
    return (
        f'<details class="evidence"><summary>evidence: {count}</summary><div class="scroll"><table>\n'
        '<thead><tr><th scope="col">time</th><th scope="col">reading</th><th scope="col">value</th>'
        '<th scope="col">look yourself</th></tr></thead>\n<tbody>'
        + "\n".join(rows)
        + "</tbody></table></div></details>"
    )


def _quoted(words: str) -> str:
    return f"<q>{said(' '.join(words.split()))}</q>" if words else ""


def when(finding: Finding) -> str:
    span = finding.span
    length = f" <span>for {lasting(span.seconds)}</span>" if span.seconds >= 0.1 else ""
    return f"<time>{utc(span.start)}</time>{length}"


def sign(name: str) -> str:
    return f'<code class="sign">{said(name)}</code>'


def badge(words: str, kind: str = "") -> str:
    return f'<b class="badge {(kind or words).replace(" ", "-")}">{words}</b>'


def said(words: str, *, most: int = 400) -> str:
    """What the machine, or a member, said: shown as it is, and obeyed by nobody."""
    return html.escape(harmless(words, most=most))
