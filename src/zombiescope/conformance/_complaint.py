"""What a check says: what is wrong with a member, and how to mend it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing that is wrong."""

    says: str
    mend: str
    about: str = ""  # the constant or function of the file that it is about: its line can be found
    line: int = 0
    member: str = ""  # stamped as it leaves the room: "signs/saturated_core"


def parameters(member: ModuleType, function: str, wanted: Sequence[str]) -> Iterator[Complaint]:
    """Whether a function takes what it will be given, by these names."""
    found = list(inspect.signature(getattr(member, function)).parameters)
    if found != list(wanted):
        yield Complaint(
            says=f"it has {function}({', '.join(found)})",
            mend=f"write def {function}({', '.join(wanted)})",
            about=function,
        )
