"""The forms of the steps that a remedy can make: what somebody else hands us as its step is run only if it has one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from zombiescope.core.model import Step

# What varies, as regular expressions. None matches a control character, which separate the parts of a step here.
SERVICE = r"[A-Za-z0-9:_.\\@-]{1,247}\.service"  # what systemd accepts as a name
SCOPE = r"[A-Za-z0-9:_.\\@-]{1,249}\.scope"
NUMBER = r"[0-9]{1,10}"
NODE = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"  # of Kubernetes: a DNS subdomain
NIC = r"(?!\.\.?[/\x01\x02])[^/:\s\x00-\x1f\x7f]{1,15}"  # dev_valid_name() in net/core/dev.c
PATH = r"(?:/(?!\.\.?[/\x01\x02])[^/\x00-\x1f\x7f]+)+"  # whole, without `..`
_WORD, _PART, _HOLE = "\x01", "\x02", re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True, kw_only=True)
class Form:
    """A step with `{name}` where it varies; the same name is the same text wherever it comes."""

    argv: tuple[str, ...]
    stdin: str = ""
    undo: tuple[str, ...] = ()
    unit: str = ""
    keeps: tuple[str, ...] = ()
    varies: Mapping[str, str] = field(default_factory=dict)

    def fits(self, step: Step) -> bool:
        words = (*step.argv, step.stdin, *step.undo, step.unit, *step.keeps)
        if any(_WORD in word or _PART in word for word in words):
            return False
        return self._pattern.fullmatch(_joined(step)) is not None

    def is_of(self, argv: Sequence[str], stdin: str, unit: str) -> bool:
        """Whether a command, told without the rest of its step, has this form; and is about this unit, if it can be."""
        if any(_WORD in word or _PART in word for word in (*argv, stdin)):
            return False
        alone = Form(argv=self.argv, stdin=self.stdin, varies=self.varies)
        found = alone._pattern.fullmatch(_joined(Form(argv=tuple(argv), stdin=stdin)))
        can_be = re.fullmatch(self.varies.get("unit", "(?!)"), unit)
        return found is not None and (not can_be or found.groupdict().get("unit", unit) == unit)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        pieces, seen = _HOLE.split(_joined(self)), set()
        pattern = re.escape(pieces[0])
        for name, literal in zip(pieces[1::2], pieces[2::2], strict=True):
            pattern += f"(?P={name})" if name in seen else f"(?P<{name}>{self.varies[name]})"
            pattern += re.escape(literal)
            seen.add(name)
        return re.compile(pattern)


def _joined(step: Step | Form) -> str:
    """One text of all its parts. It ends with a separator, so that a form can see where a name ends."""
    parts: Iterable[Sequence[str]] = (step.argv, (step.stdin,), step.undo, (step.unit,), step.keeps)
    return "".join(_WORD.join(words) + _PART for words in parts)
