"""A question: it is one, and where nothing was read nothing is known."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.core.timeline import Timeline


def check(name: str, question: ModuleType) -> Iterator[Complaint]:  # noqa: ARG001
    yield from parameters(question, "answer", ["timeline"])
    if not question.ASKS.endswith("?"):
        yield Complaint(says="ASKS is not a question", mend="end it with ?", about="ASKS")
    answer = question.answer(Timeline())
    if answer.state != "cannot tell":
        mend = 'return Answer(state="cannot tell", …) where the timeline holds too little'
        yield Complaint(says=f"where nothing was read it answers {answer.state!r}", mend=mend, about="answer")
