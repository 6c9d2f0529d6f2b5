"""The format files of tracepoints: captured ones, other kernels' and damaged ones."""

from __future__ import annotations

import pytest

from zombiescope.core import Unparsable, Unreadable
from zombiescope.kernel.tracepoint_format import Field, parse
from zombiescope.probes.softirq_events import kinds_of

COMMON = """name: NAME
ID: 221
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

"""
RAISE = (
    COMMON
    + """	field:unsigned int vec;	offset:8;	size:4;	signed:0;

print fmt: "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }, { 2, "NET_TX" })
"""
)
POLL = (
    COMMON
    + """	field:struct napi_struct * napi;	offset:8;	size:8;	signed:0;
	field:__data_loc char[] dev_name;	offset:16;	size:4;	signed:0;
	field:int work;	offset:20;	size:4;	signed:1;
	field:char comm[16];	offset:24;	size:16;	signed:0;

print fmt: "{ 9, not a symbol }"
"""
)
SOURCE = "/sys/kernel/tracing/events/irq/softirq_raise/format"


def test_fields_and_symbols() -> None:
    found = parse(RAISE, SOURCE)
    assert (found.id, found.fields) == (221, {"vec": Field(8, 4)})
    assert kinds_of([found]) == ["HI", "TIMER", "NET_TX"]
    poll = parse(POLL, SOURCE)
    assert poll.fields["dev_name"] == Field(16, 4, elsewhere=True)
    assert poll.fields["comm"] == Field(24, 16) and poll.symbols == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (RAISE.replace("vec;", "number;"), r"no field vec of 4 bytes; its fields are: number \(4\)"),
        (RAISE.replace("size:4;\tsigned:0", "size:8;\tsigned:0"), "no field vec of 4 bytes"),
        (RAISE.replace("\n\nprint", "\n\tfield:int more;\toffset:12;\tsize:4;\tsigned:1;\n\nprint"), "other fields"),
        (RAISE.partition("__print_symbolic")[0], "does not name the softirqs"),
        (RAISE.replace("{ 2,", "{ 3,"), "does not name the softirqs"),  # a hole: which kind is 2?
        (RAISE.replace("{ 2,", "{ 9999,"), "does not name the softirqs"),
    ],
)
def test_another_kernels_format_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        kinds_of([parse(text, SOURCE)])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        (RAISE.replace("ID: 221", "ID: many"), 1),
        (RAISE.replace("offset:8;", "offset:eight;"), 7),
        (RAISE.replace("size:4;\tsigned:0", "size:" + "9" * 400), 7),
    ],
)
def test_damage(text: str, line: int) -> None:
    with pytest.raises(Unparsable) as caught:
        parse(text, SOURCE)
    assert (caught.value.source, caught.value.line) == (SOURCE, line)
