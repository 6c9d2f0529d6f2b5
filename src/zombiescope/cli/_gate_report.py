"""The gate's report, ready for any format: every text in it is safe to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from zombiescope.core import harmless
from zombiescope.gate._objection import Objection, Ruling

if TYPE_CHECKING:
    from zombiescope.gate._image import Image

MOST = 1000  # characters of any one text; a hostile name has 255 bytes
OCCASIONS = {"image": "image", "look": "machine, one sample", "soak": "machine, soak test"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    target: str  # what was asked about: a folder, a tar, "/"
    occasion: str  # image, look or soak
    system: str
    kernels: tuple[str, ...]
    at: datetime
    seconds: float  # for which the machine was watched
    rulings: tuple[Ruling, ...]

    @property
    def verdict(self) -> str:
        states = {ruling.state for ruling in self.rulings}
        return "fail" if "fail" in states else "blind" if "blind" in states or states <= {"skipped"} else "pass"

    def objections(self) -> Iterator[Objection]:
        for ruling in self.rulings:
            yield from ruling.objections

    def reasons(self) -> Iterator[str]:
        """Why the gate fails, one line each, and the verdict: for a build's log."""
        for ruling in self.rulings:
            for it in ruling.objections:
                if it.level == "error" and it.accepted is None:
                    yield f"fail   {it.rule}  {it.subject}  {it.says}"
            for unseen in ruling.unseen:
                yield f"blind  {ruling.rule}  {unseen.source}: {unseen.why}"
        yield f"gate: {self.verdict.upper()}  {self.summary()}"

    def summary(self) -> str:
        about = [f"{self.target} ({OCCASIONS[self.occasion]})", self.system or "unknown system"]
        return " · ".join([*about, *(f"Linux {kernel}" for kernel in self.kernels)])


def shape(image: Image, rulings: Sequence[Ruling], target: str, at: datetime) -> Report:
    report = Report(
        target=target,
        occasion=image.occasion,
        system=image.facts.system,
        kernels=tuple(image.kernels),
        at=at,
        seconds=image.timeline.span.seconds if image.timeline is not None else 0.0,
        rulings=tuple(rulings),
    )
    shown: Report = _shown(report)
    return shown


def _shown(value: Any) -> Any:
    """The same with every text made safe to show: names in an image may hold any byte."""
    if isinstance(value, str):
        return harmless(value, most=MOST)
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{it.name: _shown(getattr(value, it.name)) for it in fields(value)})
    return value
