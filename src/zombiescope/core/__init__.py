"""The shapes, the door, the record: all that the rooms share. What needs numpy (timeline, samples) is not here.

Each is loaded when it is first asked for: to name an error does not take all shapes, which cost 30 ms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zombiescope.core.errors import Unparsable as Unparsable
    from zombiescope.core.errors import Unreadable as Unreadable
    from zombiescope.core.errors import UserError as UserError
    from zombiescope.core.host import Host as Host
    from zombiescope.core.model import Answer as Answer
    from zombiescope.core.model import Blind as Blind
    from zombiescope.core.model import Candidate as Candidate
    from zombiescope.core.model import Case as Case
    from zombiescope.core.model import Check as Check
    from zombiescope.core.model import Finding as Finding
    from zombiescope.core.model import Ground as Ground
    from zombiescope.core.model import Link as Link
    from zombiescope.core.model import Plan as Plan
    from zombiescope.core.model import Reading as Reading
    from zombiescope.core.model import Span as Span
    from zombiescope.core.model import Step as Step
    from zombiescope.core.model import Tally as Tally
    from zombiescope.core.model import Unexplained as Unexplained
    from zombiescope.core.model import Verdict as Verdict
    from zombiescope.core.words import amount as amount
    from zombiescope.core.words import harmless as harmless
    from zombiescope.core.words import lasting as lasting
    from zombiescope.core.words import percent as percent

_FILES = {
    "errors": "Unparsable Unreadable UserError",
    "host": "Host",
    "model": "Answer Blind Candidate Case Check Finding Ground Link Plan Reading Span Step Tally Unexplained Verdict",
    "words": "amount harmless lasting percent",
}


def __getattr__(name: str) -> Any:
    for file, names in _FILES.items():
        if name in names.split():
            found = globals()[name] = getattr(import_module(f"zombiescope.core.{file}"), name)
            return found
    raise AttributeError(f"zombiescope.core has no {name}")
