"""A few addresses looked up in the text of kallsyms itself, against reading all of it."""

from __future__ import annotations

import os

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
    where = np.array([*asked, 0xFFFFFFFFBF000001, 0xFFFFFFFFC0000001, 0x1000][: len(asked) + 3 * module], np.uint64)
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
    few = KallsymsText(text._text)
    assert few.names(where) == text.whole.names(where)
    assert "whole" not in vars(few), "a few names do not need all of the text"
