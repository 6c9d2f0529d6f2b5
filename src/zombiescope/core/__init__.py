"""The shapes, the door, the record: all that the rooms share. Imports nothing else of ours."""

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.core.host import Host
from zombiescope.core.model import (
    Answer,
    Blind,
    Candidate,
    Case,
    Check,
    Finding,
    Ground,
    Link,
    Plan,
    Reading,
    Span,
    Step,
    Tally,
    Unexplained,
    Verdict,
)
from zombiescope.core.words import amount, harmless, lasting, percent

# Timeline is not listed: it alone needs numpy, so who needs it says `from zombiescope.core.timeline import Timeline`.
__all__ = [
    "Answer",
    "Blind",
    "Candidate",
    "Case",
    "Check",
    "Finding",
    "Ground",
    "Host",
    "Link",
    "Plan",
    "Reading",
    "Span",
    "Step",
    "Tally",
    "Unexplained",
    "Unparsable",
    "Unreadable",
    "UserError",
    "Verdict",
    "amount",
    "harmless",
    "lasting",
    "percent",
]
