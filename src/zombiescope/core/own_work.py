"""What is our own doing: the recorder says which processes are ours, and what they start is, too."""

from __future__ import annotations

import re

import numpy as np

from zombiescope.core.model import Finding, Span
from zombiescope.core.timeline import Timeline

OWN_PROCESS = "own_process"  # 1: it is ours from then on; 0: it has ended
_PROCESS = re.compile(r"process:.*\[(\d{1,10})\]", re.DOTALL)


def is_ours(timeline: Timeline, subject: str, span: Span) -> bool:
    """Whether it is a process that was ours in that time: "process:zombiescope[2960]"."""
    named = _PROCESS.fullmatch(subject)
    said = timeline.series(OWN_PROCESS, f"pid:{named[1]}" if named else "")
    last = int(np.searchsorted(said.at, span.end, side="right")) - 1
    return last >= 0 and bool(said.values[last] > 0 or said.at[last] > span.start)


def is_own(timeline: Timeline, finding: Finding) -> bool:
    """Whether we did it, or it happened to us."""
    return any(is_ours(timeline, it, finding.span) for it in (finding.subject, finding.culprit))
