"""Folded stacks: names with anything in them, kernel marks, and what is not understood."""

from __future__ import annotations

import io

import pytest

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Function, Samples
from zombiescope.profile import folded
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.exports import folded as export
from zombiescope.profile.picture import Picture


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
        ("alone", [], 4),
        ("\udcff", [("\udcfe", False)], 1),
    ]
    assert (found.clock, found.unit) == ("none", "samples")
    assert found.notes == ("1 counts are fractions: they are rounded so that the sum stays the same",)


def test_the_sum_of_fractions_stays_what_it_is() -> None:
    found = read(b"".join(b"a;f%d 0.4\n" % it for it in range(100)) + b"a;g 2.5e1\n")
    assert int(found.weight.sum()) == 65


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_two_columns_are_a_difference(ends: bytes) -> None:
    found = read(
        ends.join([b"cksum;main;cksum 31 42", b"bash;old 7 0", b"alone 0 3", b"bash;new 1.5 2", b"odd 5", b""])
    )
    assert found.parted == 1 and [it.name for it in found.frames.functions] == ["main", "cksum", "old", "new"]
    picture = Picture(capture=found, chosen=Chosen(start=1), baseline=Chosen(end=1))
    assert (picture.before.all, picture.now.all) == (40, 47)
    assert [note for note in found.notes if "odd 5" in note]
    out = io.BytesIO()
    export.write(picture, out)
    again = read(out.getvalue())
    assert int(again.weight[again.at == 1].sum()) == 47 and again.parted == 1


def test_a_name_that_ends_in_a_number_is_no_difference() -> None:
    found = read(b"java;main;thread 7 12\njava;main 3\n")
    assert found.parted is None and found.frames.names(0) == ("main", "thread 7")


def test_one_bad_line_costs_that_line_also_among_the_first() -> None:
    text = b"what is this\na;b 1\na;c 2\n"
    assert folded.looks_like(text) and int(read(text).weight.sum()) == 3 and "line 1" in read(text).notes[0]


def test_a_leaf_that_idles_is_left_out_and_one_above_it_is_not() -> None:
    found = read(b"swapper;do_idle;default_idle 9\nswapper;do_idle;default_idle;net_rx_action 1\n")
    assert found.busy.tolist() == [False, True]


def test_a_stack_of_no_names_counts() -> None:
    """py-spy writes one for a thread without frames."""
    found = read(b"a;b 2\n 1\n  4\n")
    assert int(found.weight.sum()) == 7 and not found.notes
    assert [found.whos[it].comm for it in found.who] == ["a", "", ""]
    assert int(read(b"a;b 2 3\n 1 5\n").weight.sum()) == 11


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
