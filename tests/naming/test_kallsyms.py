"""Kernel symbols: by hand, on this kernel against a plain parse, saved and loaded, and damaged."""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.core.errors import Unparsable
from zombiescope.naming.kallsyms import UNKNOWN, Kallsyms

LINES = b"""0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 T __x64_sys_read
ffffffff81000100 W a_weak_alias_of_it
ffffffff81000180 t helper.isra.0
ffffffff81000200 D some_data
ffffffff81000300 t late
ffffffffc0201000 t nfsd_read\t[nfsd]
ffffffffc0202000 t bpf_prog_6deef7357e7b4530_\xe9\t[bpf]
"""


def this_kernel() -> bytes:
    path = Path("/proc/kallsyms")
    if not path.exists():
        pytest.skip("this machine cannot: it has no /proc/kallsyms")
    text = path.read_bytes()
    if Kallsyms.parse(text).zeroed:
        pytest.skip("this machine cannot: its kernel hides addresses; run as root")
    return text


def test_an_address_gets_the_name_of_its_function() -> None:
    kernel = Kallsyms.parse(LINES)
    assert kernel.name(0xFFFFFFFF81000100) == kernel.name(0xFFFFFFFF8100017F) == "__x64_sys_read"
    assert kernel.name(0xFFFFFFFF81000180) == "helper.isra.0"
    assert kernel.name(0xFFFFFFFFC0201FFF) == "nfsd_read [nfsd]"
    assert kernel.text_base == 0xFFFFFFFF81000000
    assert not kernel.zeroed
    raw = kernel.name(0xFFFFFFFFC0202000).encode("utf-8", "surrogateescape")
    assert raw == b"bpf_prog_6deef7357e7b4530_\xe9 [bpf]"


def test_data_and_holes_have_no_name() -> None:
    kernel = Kallsyms.parse(LINES)
    behind_the_last = 0xFFFFFFFFC0202000 + (256 << 10)
    for address in (0, 0xFFFFFFFF80FFFFFF, 0xFFFFFFFF81000200, 0xFFFFFFFFA0000000, behind_the_last, (1 << 64) - 1):
        assert kernel.name(address) == UNKNOWN
    assert kernel.names(np.array([], dtype=np.uint64)) == []


def test_32_bit_kernels_and_missing_newlines() -> None:
    kernel = Kallsyms.parse(b"c0008000 T _text\nc0008100 T start_kernel")
    assert kernel.name(0xC0008123) == "start_kernel"
    assert kernel.text_base == 0xC0008000
    assert Kallsyms.parse(b"c0008000 T _stext\nc0008100 T of two _text\n").text_base == 0xC0008000


def test_hidden_addresses_are_told() -> None:
    for zero in (b"0000000000000000", b"          (null)"):
        kernel = Kallsyms.parse(b"%b T _text\n%b T start_kernel\n" % (zero, zero))
        assert kernel.zeroed
        assert kernel.text_base is None
        assert kernel.name(0) == kernel.name(1 << 63) == UNKNOWN
        assert Kallsyms.load(kernel.saved()).zeroed


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"", 1),
        (b"\n" * 1000, 1),
        (b"hello\n", 1),
        (LINES + b"ffffffffc0202000 t\n", 11),
        (LINES + b"ffffffffc0202000 t \n", 11),
        (LINES + b"ffffffffc020200g t name\n", 11),
        (LINES + b"\n" * 1000, 11),
        (LINES + b"c0202000 t a_name_long_enough\n", 11),
        (LINES + b"ffffffffc0202000xt name\n", 11),
    ],
)
def test_another_text_is_refused_with_its_line(text: bytes, line: int) -> None:
    with pytest.raises(Unparsable) as refused:
        Kallsyms.parse(text)
    assert refused.value.line == line


def test_this_kernel_agrees_with_a_plain_parse() -> None:
    text = this_kernel()
    names: dict[int, set[str]] = defaultdict(set)
    for line in text.decode("utf-8", "surrogateescape").splitlines():
        digits, kind, name = line.split(" ", 2)
        if kind in "tTwW":
            names[int(digits, 16)].add(name.replace("\t", " "))
    kernel = Kallsyms.parse(text)
    assert len(kernel) == len(names)
    chosen = random.Random(23).sample(sorted(names), 1000)
    for address, found in zip(chosen, kernel.names(np.array(chosen, dtype=np.uint64)), strict=True):
        assert found in names[address]
    ordered = sorted(names)
    inside = [start for start, end in itertools.pairwise(ordered) if end - start > 1]
    for address in random.Random(29).sample(inside, 1000):
        assert kernel.name(address + 1) == kernel.name(address)


def test_this_kernel_is_read_fast() -> None:
    text = this_kernel()
    before = time.process_time()
    kernel = Kallsyms.parse(text)
    assert time.process_time() - before < 0.3 * max(1, text.count(b"\n") / 200_000)
    before = time.process_time()
    saved = kernel.saved()
    assert len(saved) < len(text) / 5
    assert Kallsyms.load(saved).saved() == saved
    assert time.process_time() - before < 3


def test_what_was_saved_is_loaded() -> None:
    kernel = Kallsyms.parse(LINES)
    again = Kallsyms.load(kernel.saved())
    addresses = np.arange(0xFFFFFFFF81000000, 0xFFFFFFFF81000400, dtype=np.uint64)
    assert again.names(addresses) == kernel.names(addresses)
    assert again.saved() == kernel.saved() == Kallsyms.parse(LINES).saved()
    assert (again.text_base, again.zeroed, len(again)) == (kernel.text_base, False, len(kernel))


def test_damaged_saves_are_refused() -> None:
    saved = Kallsyms.parse(LINES).saved()
    for cut in range(len(saved)):
        with pytest.raises(Unparsable):
            Kallsyms.load(saved[:cut])
    with pytest.raises(Unparsable):
        Kallsyms.load(saved + b"x")
    bomb = saved[: saved.index(b"\n") + 1] + zlib.compress(bytes(200 << 20))
    with pytest.raises(Unparsable, match="larger"):
        Kallsyms.load(bomb)


# The checksum guards against accidents, not against someone who computes it anew.
def test_hostile_saves_are_refused_or_name_something() -> None:
    saved = Kallsyms.parse(LINES).saved()
    at = saved.index(b"\n") + 1
    raw, dice = zlib.decompress(saved[at:]), random.Random(31)
    for _ in range(10_000):
        hostile = bytearray(raw)
        for _ in range(dice.randint(1, 4)):
            hostile[dice.randrange(len(hostile))] = dice.choice((0, 1, 10, 127, 128, 255, dice.randrange(256)))
        try:
            kernel = Kallsyms.load(saved[:at] + zlib.compress(hostile, 1))
        except Unparsable:
            continue
        kernel.names(np.array([0, 0xFFFFFFFF81000100, (1 << 64) - 1], dtype=np.uint64))
        assert Kallsyms.load(kernel.saved()).saved() == kernel.saved()


@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), st.integers(0, 255)), max_size=8), st.integers(0, len(LINES)))
def test_hostile_text_is_refused_or_names_something(changes: list[tuple[int, int]], end: int) -> None:
    text = bytearray(LINES)
    for place, byte in changes:
        text[place] = byte
    try:
        kernel = Kallsyms.parse(bytes(text[:end]))
    except Unparsable:
        return
    kernel.name(0xFFFFFFFF81000100)
    assert Kallsyms.load(kernel.saved()).saved() == kernel.saved()
