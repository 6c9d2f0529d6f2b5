"""The case as one page for a ticket: a single file, without script or request, that opens from disk and prints.

A Content-Security-Policy forbids the browser to run or fetch anything and to take a style but the one inside, so that
even a name that got through our own escaping could do nothing. The same case gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TextIO

from zombiescope import __version__
from zombiescope.core import Case, Plan, Step, Verdict
from zombiescope.core.commands import command
from zombiescope.core.harm import Harm
from zombiescope.core.model import STATES
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.blind_causes import what_to_do
from zombiescope.outputs import _map
from zombiescope.outputs._aside import asides, in_one_line
from zombiescope.outputs._offers import kind, kind_of, offers, pasted
from zombiescope.outputs._stages import Stages, badge, evidence, said, sign
from zombiescope.outputs._story import (
    OK,
    PROBLEM,
    consistency,
    headline,
    next_commands,
    sentence,
    taken,
    tellings,
    why_not,
)
from zombiescope.outputs._times import utc

STYLE = resources.files("zombiescope.outputs").joinpath("case.css").read_text("utf-8") + _map.STYLE
DRAWN = 40  # findings in the picture of all that was joined; with more it is a thicket
# So many of each are listed: what flaps has hundreds, and the JSON has them all.
ROOTS, PLANS, RIDDLES = 5, 20, 50
_ORDER = ("broken", "blind", "found", "clear")
_GROUNDS = {
    "order": ("began before", "the cause began first; never enough alone"),
    "place": ("same place", "the same core, cgroup, device or process"),
    "dose": ("amounts match", "more of one, more of the other"),
    "mechanism": ("seen in stacks", "or seen directly: in a log, in a trace"),
    "experiment": ("stopped after the fix", "the cause was taken away, and it stopped"),
}


def write(case: Case, timeline: Timeline, out: TextIO) -> None:
    stages = Stages(case, timeline)
    parts = (
        _head(case),
        _header(case),
        '<main id="report">',
        _chains(case, stages),
        _remedies(case),
        _riddles(case, stages),
        _asides(case, stages),
        _answers(case),
        _consistency(case),
        _looked(case),
        _settings(case),
        "</main>",
        _footer(),
        "</body>\n</html>\n",
    )
    out.write("\n".join(part for part in parts if part))


def _head(case: Case) -> str:
    style = "\n" + STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    state, says = headline(case)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{digest}'; \
base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="zombiescope {__version__}">
<title>{said(case.node or "unknown node", most=60)}: {said(f"{state.lower()}, {says}", most=120)}</title>
<style>{style}</style>
</head>
<body>"""


def _header(case: Case) -> str:
    state, says = headline(case)
    causes = case.root_causes
    roots = [
        f'<li>{sign(root.sign)} <span class="subject">{said(root.subject, most=120)}</span>'
        f"<p>{said(sentence(root))}</p>{_cost(case.cost_of(root))}</li>"
        for root in causes[:ROOTS]
    ]
    told = (
        '<ul class="roots">\n' + "\n".join(roots + _more(causes, ROOTS)) + "\n</ul>"
        if roots
        else f"<p>{said(says)}</p>"
    )
    lead = state.capitalize()
    what = {PROBLEM: "root cause" if roots else "no cause found", OK: "nothing found"}.get(state, "not all was seen")
    return f"""<header class="{state.lower().replace(" ", "-")}">
<p class="brand">zombiescope <span>{__version__}</span></p>
<h1><b>{lead}</b> {what}{"s" if len(causes) > 1 else ""}</h1>
{told}
<dl><div><dt>node</dt><dd>{said(case.node or "unknown")}</dd></div>
<div><dt>kernel</dt><dd>Linux {said(case.kernel or "?")}</dd></div>
<div><dt>looked at</dt><dd>{taken(case.span)}</dd></div>
<div><dt>signs</dt><dd>{_counted(case)}</dd></div></dl>
</header>"""


def _cost(harm: Harm) -> str:
    return f'<p class="cost">{said(harm.says)}</p>' if harm.says else ""


def _counted(case: Case) -> str:
    states = [verdict.state for verdict in case.verdicts]
    return ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states) or "none asked"


def _chains(case: Case, stages: Stages) -> str:
    told = tellings(case)
    if not told:
        return ""
    chains = "\n".join(f'<section class="telling">{stages.telling(telling)}</section>' for telling in told)
    return (
        f'<section id="chain"><h2>What happened, first cause first</h2>\n{chains}\n{_picture(case, stages)}</section>'
    )


def _picture(case: Case, stages: Stages) -> str:
    """All that was joined, other possible causes too, where it is more than one line of causes."""
    joined = [it for it in case.findings if any(it in (link.cause, link.effect) for link in case.links)]
    if not joined or len(case.links) < len(joined) or len(joined) > DRAWN:
        return ""
    strongest = {case.causes_of(finding)[0] for finding in joined if case.causes_of(finding)}
    boxes = {
        stages.address(it): _map.Box(
            lines=(it.sign, _short(it.subject), utc(it.span.start)),
            title=sentence(it),
            href=f"#{stages.address(it)}" if stages.told(it) else "",
        )
        for it in joined
    }
    arrows = [
        _map.Arrow(
            cause=stages.address(link.cause),
            effect=stages.address(link.effect),
            title="; ".join(f"{ground.kind}: {ground.says}" for ground in link.grounds),
            weak=link not in strongest,
        )
        for link in case.links
    ]
    drawn = _map.draw(boxes, arrows, label="every finding that was joined, causes above effects", alone=False)
    return (
        f'<details class="picture" open><summary>The whole picture: {len(joined)} findings, {len(case.links)} links'
        f'; broken lines are other possible causes</summary><div class="scroll">\n{drawn}</div></details>'
    )


def _short(subject: str, most: int = 24) -> str:
    return subject if len(subject) <= most else subject[: most - 1] + "…"


def _remedies(case: Case) -> str:
    if not case.problems:
        return ""
    plans = "\n".join(_plan(plan) for plan in offers(case)[:PLANS])
    commands = "\n".join(f"<li><code>{said(command)}</code></li>" for command in next_commands(case))
    where = "Next" if case.recording else "Next, on the node"
    return (
        f'<section id="next"><h2>What to do</h2>\n{plans}\n<p>{where}:</p>\n'
        f'<ul class="commands">\n{commands}\n</ul></section>'
    )


def _plan(plan: Plan) -> str:
    steps = "\n".join(_step(plan, step) for step in plan.steps)
    proof = ", ".join(sign(name) for name in plan.proof)
    return (
        f'<article class="plan"><h3><code>{said(plan.name)}</code> {badge(kind(plan))}</h3>\n'
        f'<p>for {sign(plan.cures.sign)} <span class="subject">{said(plan.cures.subject)}</span>'
        + (f"; proved when {proof} come{'s' * (len(plan.proof) == 1)} back clear" if proof else "")
        + f"</p>\n<ol>\n{steps}\n</ol></article>"
    )


def _step(plan: Plan, step: Step) -> str:
    """Its risk is shown where it is not the plan's."""
    risk = kind_of(plan, step)
    mark = f" {badge(risk)}" if risk != kind(plan) else ""
    does, undoes = pasted(step), command(*step.undo)
    undo = f'<br><span class="undo">undo: <code>{said(undoes, most=len(undoes))}</code></span>' if undoes else ""
    do = f"<br><code>{said(does, most=len(does))}</code>" if does else ""
    return f"<li>{said(step.says)}{mark}{do}{undo}</li>"


def _riddles(case: Case, stages: Stages) -> str:
    aside = case.set_aside
    unexplained = [it for it in case.unexplained if it.finding not in aside]
    if not unexplained:
        return ""
    riddles = []
    for riddle in unexplained[:RIDDLES]:
        whys = "\n".join(
            f"<li>{why_not(it)}: "
            f"<code>{said(it.law.partition('_to_')[0])}</code>: {said(it.why_not)}{_to_see_it(it.why_not)}</li>"
            for it in riddle.candidates
        )
        riddles.append(f"<li>{stages.pointer(riddle.finding)}\n<ul>\n{whys}\n</ul></li>")
    listed = "\n".join(riddles + _more(unexplained, RIDDLES))
    return f'<section id="unexplained"><h2>Unexplained</h2>\n<ul class="riddles">\n{listed}\n</ul></section>'


def _asides(case: Case, stages: Stages) -> str:
    """What accuses nobody: what is over, what could not be weighed, what harms nobody; each with its evidence."""
    parts = []
    for aside in asides(case):
        rows = [
            f'<li id="{stages.address(it)}"><p>{said(in_one_line(case, aside, it))}</p>{evidence(it.evidence)}</li>'
            for it in aside.findings[:RIDDLES]
        ]
        listed = "\n".join(rows + _more(aside.findings, RIDDLES))
        heading = said(aside.heading.rstrip(":"))
        parts.append(f'<section id="{aside.name}"><h2>{heading}</h2>\n<ul class="asides">\n{listed}\n</ul></section>')
    return "\n".join(parts)


def _more(items: Sequence[object], shown: int) -> list[str]:
    return [f"<li>… and {len(items) - shown} more, in the JSON</li>"] if len(items) > shown else []


def _answers(case: Case) -> str:
    if not case.answers:
        return ""
    listed = "\n".join(
        f"<li>{badge(it.state)} <code>{said(it.question)}</code><p>{said(it.says)}</p>{evidence(it.evidence)}</li>"
        for it in case.answers
    )
    return f'<section id="answers"><h2>Asked and answered</h2>\n<ul class="answers">\n{listed}\n</ul></section>'


def _consistency(case: Case) -> str:
    held = "\n".join(f"<li>{said(words)}</li>" for _, words in consistency(case))
    return f'<section id="consistency"><h2>How consistent it was</h2>\n<ul>\n{held}\n</ul></section>' if held else ""


def _looked(case: Case) -> str:
    """Every sign and what it came to, what could not be seen first: blind is never clear."""
    ranked = sorted(case.verdicts, key=lambda verdict: _ORDER.index(verdict.state))
    rows = "\n".join(f"<tr><td>{sign(it.sign)}</td><td>{badge(it.state)}</td><td>{_saw(it)}</td></tr>" for it in ranked)
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("sign", "state", "what it saw"))
    return (
        '<section id="looked"><h2>What was looked at</h2>\n<table class="verdicts">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></section>"
        if rows
        else ""
    )


def _saw(verdict: Verdict) -> str:
    says = verdict.state if verdict.state == "broken" else verdict.says
    do = _to_see_it(says) if verdict.state in ("blind", "broken") else ""
    return f"{said(verdict.says, most=1000)}{do}{evidence(verdict.evidence) if verdict.state != 'found' else ''}"


def _to_see_it(why: str) -> str:
    do = what_to_do(why)
    return f'<span class="do">to see it: {said(do)}</span>' if do else ""


def _settings(case: Case) -> str:
    listed = "\n".join(f"<li><code>{said(setting)}</code></li>" for setting in case.settings)
    if not listed:
        return ""
    return f'<section id="settings"><h2>Thresholds that were not ours</h2>\n<ul>\n{listed}\n</ul></section>'


def _footer() -> str:
    rows = (f"<div><dt>{badge(name, kind)}</dt><dd>{says}</dd></div>" for kind, (name, says) in _GROUNDS.items())
    kinds = "\n".join(rows)
    heading = "Grounds on which two findings are joined"
    return f"<footer><h2>{heading}</h2>\n<dl>\n{kinds}\n</dl>\n<p>Times are UTC.</p></footer>"
