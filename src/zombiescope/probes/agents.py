"""Known agents installed here: whether they start at boot, what needs them, which signs of use they show.

Overhead: 17 ms, mostly for reading unit files; walking the live cgroups takes 3 µs each. It runs so rarely that it
    costs 30 µs a second. Which agents and which signs of use: knowledge/agents.toml.
Kernel: none: unit files, systemd's bus where it answers, configuration files, the names of cgroups and processes.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.audit.survey import Row, survey
from zombiescope.core import Blind, Host, Reading
from zombiescope.core.commands import operand, shown_by
from zombiescope.core.witness import Witness

EVERY = 600.0
WITNESS = Witness.NAMES
GIVES = ("agent_enabled", "agent_use", "agent_uses", "agent_uses_unseen", "agent_leaks")


def read(host: Host) -> Iterator[Reading | Blind]:
    seen = survey(host, agents_only=True)
    at = host.now()
    for row in seen.rows:
        yield from _told(row, at)


def _told(row: Row, at: float) -> Iterator[Reading | Blind]:
    if row.agent is None or row.use is None:
        return
    subject, source = f"unit:{row.unit}", row.path or shown_by("systemctl", "cat", *operand(row.unit))

    def told(what: str, value: float, text: str, of: str = subject, where: str = source) -> Reading:
        return Reading(what=what, subject=of, value=value, at=at, source=where, text=text)

    by = f" by {', '.join(row.enabled_by)}" if row.enabled_by else ""
    yield told("agent_enabled", float(row.starts), f"{row.enabled or 'no unit file'}{by}")
    unseen = [it for it in row.use.seen if it.held is None]
    for it in row.use.seen:
        of = f"use:{row.unit}/{it.sign.subject}"
        if it.held is None:
            yield Blind(what="agent_use", source=it.source, why=it.says, subject=of)
        else:
            yield told("agent_use", float(it.held), it.says, of, it.source)
    held = sum(bool(it.held) for it in row.use.seen) + len(row.use.needed_by)
    yield told("agent_uses", held, row.use.says)
    # Absence of use proves nothing while one thing cannot be seen: clients that call the agent from elsewhere.
    hidden = len(unseen) or float(not row.agent.claim)
    yield told("agent_uses_unseen", hidden, "; ".join(it.says for it in unseen))
    yield told("agent_leaks", float(bool(row.agent.leaks)), row.agent.leaks)
