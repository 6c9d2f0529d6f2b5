"""What could not be read of several subjects is said of all of them, the first few reasons by name."""

from __future__ import annotations

from zombiescope.core import Blind
from zombiescope.recorder.looked import MOST_REASONS, Looked


def blind(subject: str, why: str) -> Blind:
    return Blind(what="user_symbols", source=f"/proc/{subject}/root", why=why, subject=subject)


def test_the_reasons_of_several_subjects_stand_side_by_side() -> None:
    (note,) = Looked().look("stacks", ["user_symbols"], 1.0, [blind("pid:1", "gone"), blind("pid:2", "a FIFO")])
    assert note.value == 2 and note.why == "gone; a FIFO"
    (note,) = Looked().look("stacks", ["user_symbols"], 1.0, [blind(f"pid:{it}", "gone") for it in range(9)])
    assert note.why == "gone"


def test_many_reasons_are_counted() -> None:
    many = [blind(f"pid:{it}", f"why {it}") for it in range(MOST_REASONS + 3)]
    (note,) = Looked().look("stacks", ["user_symbols"], 1.0, many)
    assert note.why.endswith(f"why {MOST_REASONS - 1}; and 3 more")


def test_what_could_not_be_read_at_all_outweighs_one_subject() -> None:
    both = [blind("", "no right"), blind("pid:2", "a FIFO")]
    note, _ = Looked().look("stacks", ["user_symbols", "samples_total"], 1.0, both)
    assert note.value == 1 and note.why == "no right; a FIFO"
