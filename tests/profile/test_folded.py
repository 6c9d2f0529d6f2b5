"""Folded stacks: names with anything in them, kernel marks, and what is not understood."""

from __future__ import annotations

import pytest

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Samples
from zombiescope.profile import folded


def read(text: bytes, size: int = 1 << 20) -> Samples:
    return folded.parse([text[at : at + size] for at in range(0, len(text), size)], "x.folded")


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_names_marks_and_counts(size: int) -> None:
    found = read(
        b"kubelet;main;read stat_[k];walk_[k] 42\r\nVM Thread;a b;c_[j];d_[i] 7\nalone\t3.9\n\n\xff;\xfe 1", size
    )
    told = [
        (found.whos[who].comm, [(it.name, it.kernel) for it in found.frames[stack]], weight)
        for who, stack, weight in zip(found.who, found.stack, found.weight.tolist(), strict=True)
    ]
    assert told == [
        ("kubelet", [("main", False), ("read stat", True), ("walk", True)], 42),
        ("VM Thread", [("a b", False), ("c", False), ("d", False)], 7),
        ("alone", [], 3),
        ("\udcff", [("\udcfe", False)], 1),
    ]
    assert (found.clock, found.unit, found.notes) == ("none", "samples", ())


def test_a_leaf_that_idles_is_left_out_and_one_above_it_is_not() -> None:
    found = read(b"swapper;do_idle;default_idle 9\nswapper;do_idle;default_idle;net_rx_action 1\n")
    assert found.busy.tolist() == [False, True]


def test_comments_are_none_of_it_and_odd_lines_are_told() -> None:
    found = read(b'# {"metadata": {}}\na;b 1\nnonsense here\na;b 0\n')
    assert len(found) == 1 and found.notes == ("line 3 is not understood: 'nonsense here'",)
    assert found.frames[0] == [Function("b", False)]


@pytest.mark.parametrize("text", [b"nonsense\n", b"\x00\x01\n", b"{}\n"])
def test_what_is_not_folded_is_refused(text: bytes) -> None:
    assert not folded.looks_like(text)
    with pytest.raises(Unparsable, match=r"x.folded: line 1 is not understood"):
        read(text)


def test_what_looks_like_it() -> None:
    assert folded.looks_like(b"# comment\na;b c 42\nx 1\ncut in the mid")
    assert not folded.looks_like(b"MemTotal 12\nMemFree 13\n"), "numbers at the ends of lines are not enough"
    assert not folded.looks_like(b"")
