"""Three things that can go wrong.

Unreadable   absent, forbidden, vanished, too large: normal; a sign that needs it turns blind
Unparsable   the kernel said something we do not know: the same, and worth a bug report
UserError    wrong arguments: one line on stderr, exit code 2
"""

from __future__ import annotations


class Unreadable(Exception):
    """A source that could not be read, and why."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__(f"{source}: {why}")
        self.source, self.why = source, why


class Unparsable(Exception):
    """A source that was read but not understood: which line, and what it said."""

    def __init__(self, source: str, line: int, text: str) -> None:
        self.source, self.line, self.text = source, line, text[:200]
        self.why = f"line {line} is not understood: {self.text!r}"
        super().__init__(f"{source}: {self.why}")


class UserError(Exception):
    """A mistake in what was asked of us, said in one line."""
