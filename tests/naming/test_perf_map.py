"""Maps of just-in-time compilers: lines that fit, and any others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zombiescope.naming.perf_map import PerfMap

MAP = b"""7f2c1c0a5000 1a0 LazyCompile:~parse /app/server.js:12
0x7F2C1C0A5200 0x20 Interpreter
not a line
7f2c1c0a5300 0 empty
7f2c1c0a5300 20
zzzz 20 name
7f2c1c0a5010 8 newer, inside of parse
11112222333344445 20 too wide
fffffffffffffff0 ffffffffffffffff wraps
7f2c1c0a5400 10 caf\xe9
"""


def test_functions_are_found_and_hostile_lines_counted() -> None:
    read = PerfMap.parse(MAP)
    assert (len(read), read.skipped) == (5, 5)
    assert read.name(0x7F2C1C0A5000) == "LazyCompile:~parse /app/server.js:12"
    assert read.name(0x7F2C1C0A5200) == "Interpreter"
    assert read.name(0x7F2C1C0A519F) == "LazyCompile:~parse /app/server.js:12"
    for outside in (0x7F2C1C0A51A0, 0x7F2C1C0A4FFF, 0x7F2C1C0A5300, 0, -1, 1 << 64):
        assert read.name(outside) is None
    assert read.name(0xFFFFFFFFFFFFFFF5) == "wraps"


def test_the_later_line_wins() -> None:
    read = PerfMap.parse(MAP)
    assert read.name(0x7F2C1C0A5010) == read.name(0x7F2C1C0A5017) == "newer, inside of parse"
    assert read.name(0x7F2C1C0A5018) == "LazyCompile:~parse /app/server.js:12"
    assert PerfMap.parse(b"1000 10 old\n1000 10 new\n").name(0x1000) == "new"


def test_bytes_that_are_not_text_are_kept() -> None:
    name = PerfMap.parse(MAP).name(0x7F2C1C0A5400)
    assert name is not None
    assert name.encode("utf-8", "surrogateescape") == b"caf\xe9"


def test_an_empty_map_names_nothing() -> None:
    assert PerfMap.parse(b"").name(1) is None
    assert PerfMap.parse(b"").skipped == 0


@given(st.binary(max_size=300) | st.text("0123456789abcdefx \n\t", max_size=300).map(str.encode))
def test_any_bytes_are_read(text: bytes) -> None:
    read = PerfMap.parse(text)
    assert read.skipped >= 0
    assert len(read) + read.skipped == text.count(b"\n") + bool(text and not text.endswith(b"\n"))
    read.name(0x1000)
