"""A few addresses looked up in the text of kallsyms itself, against reading all of it."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.core.errors import Unparsable
from zombiescope.naming.kallsyms import UNKNOWN, Kallsyms
from zombiescope.naming.kallsyms_text import KallsymsText

addresses = st.integers(0xFFFFFFFF81000000, 0xFFFFFFFF81000200)
names = st.sampled_from(["do_idle", "vfs_read", "__pi_do_idle", "a.isra.0"])


@given(st.lists(st.tuples(addresses, names), min_size=1, max_size=40), st.lists(addresses, max_size=20), st.booleans())
def test_both_say_the_same(symbols: list[tuple[int, str]], asked: list[int], module: bool) -> None:
    text = "".join(f"{at:016x} T {name}\n" for at, name in sorted(dict(symbols).items())).encode()
    text += b"ffffffffc0000000 t do_idle\t[processor]\nffffffffbf000000 t other\t[processor]\n" * module
    text += b"ffffffff81000210 t near\t[bpf]\nffffffff80f00000 t below\t[virtio]\n" * module
    strange = [0xFFFFFFFFBF000001, 0xFFFFFFFFC0000001, 0x1000, 0xFFFFFFFF81000215, 0xFFFFFFFF80F00001]
    where = np.array([*asked, *strange[: len(strange) * module]], np.uint64)
    wanted = "do_idle".__eq__
    short, whole = KallsymsText(text), Kallsyms.parse(text)
    found = short.those(where, lambda name: wanted(name.split(" ")[0]))
    assert found.tolist() == [wanted(name.split(" ")[0]) for name in whole.names(where)]
    assert found.tolist() == whole.those(where, lambda name: wanted(name.split(" ")[0])).tolist()
    assert KallsymsText(text).names(where) == whole.names(where)


def test_all_names_of_an_address_count() -> None:
    text = b"ffffffff81000000 T _text\nffffffff81000100 T halt\nffffffff81000100 t default_idle\nffffffff81000200 T x\n"
    found = KallsymsText(text)
    assert found.those(np.array([0xFFFFFFFF81000150], np.uint64), "default_idle".__eq__).tolist() == [True]
    assert (found.text_base, found.zeroed, len(found.whole)) == (0xFFFFFFFF81000000, False, 3)


@pytest.mark.parametrize("many", [1, 600])
def test_of_a_copy_only_the_kernel_s_own_functions_are_believed(many: int) -> None:
    own = b"ffffffff81000000 T _text\nffffffff81000100 T halt\nffffffff81000200 T _etext\n"
    asked: list[int] = []

    def running() -> bytes:
        asked.append(1)
        return own + b"ffffffffc0000000 t now\t[here]\n"

    copy = KallsymsText(own + b"ffffffffc0000000 t then\t[gone]\n", running=running)
    inside = np.full(many, 0xFFFFFFFF81000110, np.uint64)
    assert copy.names(inside + np.arange(many, dtype=np.uint64) % np.uint64(64)) == ["halt"] * many
    assert copy.those(inside, "halt".__eq__).all() and not asked
    assert copy.names(np.array([0xFFFFFFFFC0000001, 0xFFFFFFFF81000110], np.uint64)) == ["now [here]", "halt"]
    assert asked == [1] and copy.names(np.array([0x1000], np.uint64)) == [UNKNOWN]
    below = KallsymsText(own, running=running)
    assert below.names(np.array([0xFFFFFFFF80FFFFFF], np.uint64)) == [UNKNOWN] and asked == [1, 1]


def test_what_is_no_kallsyms_is_refused() -> None:
    with pytest.raises(Unparsable):
        KallsymsText(b"PERFILE2 and so on")


@pytest.mark.skipif(os.geteuid() != 0, reason="addresses are hidden from all but root")
def test_this_kernel() -> None:
    with open("/proc/kallsyms", "rb") as file:
        text = KallsymsText(file.read())
    where = np.arange(0, 1 << 22, 1 << 15, dtype=np.uint64) + np.uint64(text.text_base or 0)
    for at, name in zip(where, text.whole.names(where), strict=True):
        assert name == UNKNOWN or text.those(np.array([at]), name.__eq__).tolist() == [True]
    few = KallsymsText(text.text + b"ffffffffc0fff000 t bpf_prog_1\t[bpf]\n")
    where = np.append(where, np.array([0xFFFFFFFFC0FFF010, 0x1000], np.uint64))
    assert few.names(where) == [*text.whole.names(where[:-2]), "bpf_prog_1 [bpf]", UNKNOWN]
    assert few.names(np.empty(0, np.uint64)) == []
    assert "whole" not in vars(few), "a few names do not need all of the text"


def test_hidden_addresses_and_one_address_of_very_many_names_take_no_time() -> None:
    hidden = KallsymsText(b"0000000000000000 T _text\n" * 100_000)
    assert hidden.names(np.arange(300, dtype=np.uint64)) == [UNKNOWN] * 300 and hidden.zeroed
    lines = [b"ffffffff81000000 T _text\n", *(b"ffffffff81000100 t f%05d\n" % it for it in range(50_000))]
    where = np.arange(0xFFFFFFFF81000100, 0xFFFFFFFF81000200, dtype=np.uint64)
    begun = time.process_time()
    assert len(set(KallsymsText(b"".join(lines)).names(where))) == 1
    assert time.process_time() - begun < 2
