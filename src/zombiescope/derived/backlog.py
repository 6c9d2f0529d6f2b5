"""Packets that were dropped because a core did not take them from its backlog."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.model import Finding, Ground


def same_backlog(cause: Finding, lost: Finding) -> Iterator[Ground]:
    """That the packets were lost in the backlog of the very core that something else kept busy."""
    if lost.subject.startswith("cpu:") and cause.subject == lost.subject:
        says = f"the backlog is that of {lost.subject.replace(':', ' ')}"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], lost.evidence[-1]))
