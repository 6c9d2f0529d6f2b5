"""The text of `perf script` as people have it: every form of its lines, real captures of others, damage."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile.fuzz_text import SCRIPT, fuzz

from zombiescope.core.errors import Unparsable, UserError
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile import gathering, perf_script
from zombiescope.profile.heatmap_images import grid

DATA = Path(os.environ.get("ZOMBIESCOPE_EXTERNAL_DATA", Path(__file__).parents[3] / "shared" / "data")) / "perf"
# How many samples are in each, by `grep -vc '^\s\|^#\|^$'`.
COUNTS = {
    "flamescope-perf.test01": 9,
    "speedscope-forks.linux-perf.txt": 561,
    "speedscope-one-sample.linux-perf.txt": 1,
    "speedscope-rust-mangled.linux-perf.txt": 96,
    "speedscope-simple-with-header.linux-perf.txt": 136,
    "speedscope-simple-with-pid.linux-perf.txt": 137,
    "speedscope-simple.linux-perf.txt": 1,
    "speedscope-system-wide.linux-perf.txt": 556,
}
MAIN = Function("main", False, "/bin/x")
FRAMES = "\n\t  400 main (/bin/x)\n\n"


def read(text: str | bytes, size: int = 1 << 20, event: str | None = None) -> Samples:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return perf_script.parse([data[at : at + size] for at in range(0, len(data), size)], "capture.txt", event)


def others(name: str) -> bytes:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {path}: set ZOMBIESCOPE_EXTERNAL_DATA")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("line", "at", "cpu", "tid", "who"),
    [
        ("java  8192 [000]  5076.100000: cpu-clock: ", 5076_100_000_000, 0, 8192, Who(8192, "java")),
        ("java 8192/8193 [021] 5076.1000001:    1001001 cycles:ppp: ", 5076_100_000_100, 21, 8193, Who(8192, "java")),
        (
            "simple-terminat    10 198792.736893:    1001001 cpu-clock:",
            198792_736_893_000,
            -1,
            10,
            Who(10, "simple-terminat"),
        ),
        ("VM Thread 12  7/7     1.000000001: cycles: ", 1_000_000_001, -1, 7, Who(7, "VM Thread 12")),
        (
            "  kworker/0:1-ev     5 [002]     1.000000: sched:sched_switch: prev=x ==> y",
            10**9,
            2,
            5,
            Who(5, "kworker/0:1-ev"),
        ),
        (":-1    -1 [000]     1.000000: cycles: ", 10**9, 0, -1, Who(-1, ":-1")),
        ("a 1 [000] 1.000000: 1 cpu/mem-loads,ldlat=30/P: ", 10**9, 0, 1, Who(1, "a")),
        ("a 1 [000] 1.000000: 1 cycles:  /kubepods/pod 1", 10**9, 0, 1, Who(1, "a", "/kubepods/pod 1")),
        ("a 1 1.000000: ", 10**9, -1, 1, Who(1, "a")),
        ("name\udcff 1 1.000000: cycles:", 10**9, -1, 1, Who(1, "name\udcff")),
        ("#1 thread 1 1.000000: cycles:", 10**9, -1, 1, Who(1, "#1 thread")),
    ],
)
def test_every_form_of_an_event(line: str, at: int, cpu: int, tid: int, who: Who) -> None:
    found = read(line + FRAMES)
    assert (found.at[0], found.cpu[0], found.tid[0], found.whos[found.who[0]]) == (at, cpu, tid, who)
    assert found.frames[0] == [MAIN] and found.clock == "machine" and not found.notes


@pytest.mark.parametrize(
    ("line", "function"),
    [
        ("\tffffffff81051586 native_safe_halt ([kernel.kallsyms])", Function("native_safe_halt", True)),
        ("\tffffffff81051586 start_kernel ([kernel.kallsyms].init.text)", Function("start_kernel", True)),
        ("\t  2013aa sched_op+0xfe20000a (/lib/modules/4.9/build/vmlinux)", Function("sched_op", True)),
        ("\tffffffffc0 nf_hook+0x1 ([nf_conntrack])", Function("nf_hook", True, "nf_conntrack")),
        ("\tffffffffc0 ena_poll (/lib/modules/6.1/kernel/drivers/ena.ko.xz)", Function("ena_poll", True, "ena")),
        ("\tffffffffc0 bpf_prog_1_x (bpf_prog_1_x)", Function("bpf_prog_1_x", True, "bpf")),
        ("\tffffffffad135f6f [unknown] ([unknown])", Function("[unknown]", True)),
        ("\t    7fff1 __vdso_gettimeofday ([vdso])", Function("__vdso_gettimeofday", False, "[vdso]")),
        (
            "\t    7fa4 Lfoo/Bar;::xxx (/tmp/perf-1.map)",
            Function("Lfoo/Bar;::xxx", False, "/tmp/perf-1.map"),
        ),
        (
            "\t  7f operator()(int, char (*)[3]) (/a b (deleted))",
            Function("operator()(int, char (*)[3])", False, "/a b (deleted)"),
        ),
        ("\t  7f nmethod::is_nmethod() const+0x10 (/l.so)", Function("nmethod::is_nmethod() const", False, "/l.so")),
        ("\t  7f inlined_one (inlined)", Function("inlined_one", False)),
        ("\t  7f main::{{closure}}+0x3 (/x[1]/y)", Function("main::{{closure}}", False, "/x[1]/y")),
        ("\t  7f smile :) (/x)", Function("smile :)", False, "/x")),
        ("\t  7f f (/smile:))", Function("f", False, "/smile:)")),
        ("\t  7f call(int)", Function("call(int)", False)),
        ("\t  7f", Function("[unknown]", False)),
        ("\t  7f (/bin/x)", Function("[x]", False, "/bin/x")),
        ("\t  7f [unknown] (/usr/bin/gzip (deleted))", Function("[gzip]", False, "/usr/bin/gzip (deleted)")),
        ("\t  7f [unknown] (//anon)", Function("[unknown]", False, "//anon")),
        ("        7f tabs_are_gone (/x)", Function("tabs_are_gone", False, "/x")),
    ],
)
def test_every_form_of_a_frame(line: str, function: Function) -> None:
    assert read(f"a 1 1.000000: cycles: \n{line}\n").frames[0] == [function]


def test_functions_compiled_into_others_are_frames_of_their_own() -> None:
    found = read("a 1 1.000000: cycles: \n\t    7fa4 Lfoo/Bar;::xxx->Lfoo;::y (/tmp/perf-1.map)\n")
    assert found.frames.names(0) == ("Lfoo/Bar;::xxx", "Lfoo;::y")


def test_events_without_stacks_have_their_frame_at_the_end_of_the_line() -> None:
    found = read(
        "java 14341 [016] 252732.474759: cycles:      7f36 nmethod::is_nmethod() const (/l.so)\n"
        "     swapper     0 [002] 6035557.056977:   10101010 cycles:  ffffffff81 default_idle+0xa (/boot/vmlinux)\n"
        "         bad  123 [000] 6035557.056978: cycles:  ffffffff82 schedule ([kernel.kallsyms])\n"
    )
    assert [frames[0].name for frames in map(found.frames.__getitem__, found.stack)] == [
        "nmethod::is_nmethod() const",
        "default_idle",
        "schedule",
    ]
    assert found.busy.tolist() == [True, False, True]
    assert [found.whos[it].comm for it in found.who] == ["java", "swapper", "bad"]


def test_events_without_times() -> None:
    found = read(f"a 1 cycles: {FRAMES}b 2/3 [001] 7 cycles: {FRAMES}")
    assert (len(found), found.clock, found.cpu.tolist(), found.tid.tolist()) == (2, "none", [-1, 1], [1, 3])


def test_garbage_below_user_frames_is_not_the_kernel_s() -> None:
    addresses = ("ffffffff81000000", "ffffffff81000100", "400", "fffffffffffffe98")
    frames = "".join(f"\t{address:>16} f ([unknown])\n" for address in addresses)
    assert [it.kernel for it in read(f"a 1 1.0: x: \n{frames}").frames[0]] == [False, False, True, True]


def test_softirqs_on_top_of_idle_are_work_and_idle_is_told_by_its_leaf() -> None:
    idle = "\tffffffff81 default_idle ([kernel.kallsyms])\n"
    packet = "\tffffffff82 ena_io_poll ([ena])\n"
    found = read(f"swapper 0 [000] 1.0: x: \n{idle}\nswapper 0 [000] 2.0: x: \n{packet}{idle}\n")
    assert found.busy.tolist() == [False, True]


@pytest.mark.parametrize(
    ("periods", "event", "unit", "weights", "hz"),
    [
        ((1001001, 1001001), "cpu-clock", "samples", [1, 1], 999.0),
        ((20_408_163, 5_000_000_000), "cpu-clock", "nanoseconds", [20_408_163, 5_000_000_000], 0.0),
        ((4000, 7000), "cycles", "samples", [1, 1], 0.0),
        ((2, 40), "samples", "samples", [2, 40], 0.0),
    ],
)
def test_what_a_sample_stands_for(
    periods: tuple[int, int], event: str, unit: str, weights: list[int], hz: float
) -> None:
    found = read("".join(f"a 1 {at}.0: {period} {event}: {FRAMES}" for at, period in enumerate(periods)))
    assert (found.unit, found.weight.tolist(), round(found.hz, 3)) == (unit, weights, hz)


def test_the_rate_is_in_perf_s_header_and_wall_clock_times_are_known_by_their_size() -> None:
    head = "# cmdline : /usr/bin/perf record -F 49 -a -g -- sleep 60\n#\n"
    assert read(f"{head}a 1 1794000000.5: cycles: {FRAMES}").clock == "unix"
    assert read(f"{head}a 1 1.5: cycles: {FRAMES}").hz == 49.0


@settings(deadline=None)
@given(st.integers(1, 400), st.booleans(), st.booleans())
def test_pieces_line_ends_and_more_empty_lines_do_not_matter(size: int, windows: bool, airy: bool) -> None:
    text = SCRIPT.replace(b"\n\n", b"\n \n\n\n") if airy else SCRIPT
    text = text.replace(b"\n", b"\r\n") if windows else text
    for event in ("cpu-clock", "sched:sched_switch", "[no name]"):
        found, plain = read(text, size, event), read(SCRIPT, event=event)
        assert found.at.tolist() == plain.at.tolist() and len(found) == 1
        assert [found.frames[it] for it in found.stack] == [plain.frames[it] for it in plain.stack]
        assert len(found.notes) == len(plain.notes)


def test_of_several_events_the_cpu_s_is_shown_and_the_others_are_listed() -> None:
    text = f"a 1 1.0: 7 cpu-clock:ppp: {FRAMES}" + f"a 1 2.0: 1 sched:sched_switch: x {FRAMES}" * 3
    found = read(text)
    assert (len(found), found.origin.measure, found.origin.others) == (1, "cpu-clock:ppp", ("sched:sched_switch",))
    assert found.notes == ("3 samples of other events are left out: --event chooses",)
    assert len(read(text, event="sched:sched_switch")) == 3
    with pytest.raises(UserError, match="has no event 'cycles': --event takes cpu-clock:ppp, sched:sched_switch"):
        read(text, event="cycles")
    hybrid = "".join(f"a 1 {at}.0: 1 cpu_{kind}/cycles/P: {FRAMES}" for at, kind in enumerate(("core", "atom")))
    assert (len(read(hybrid)), read(hybrid).origin.measure) == (2, "cycles")


def test_without_times_and_tabs_and_with_a_bad_line_first() -> None:
    frame = "        401000 main (/bin/x)\n\n"
    text = f"what is this\nbash 7 cycles:\n{frame}  cafe 8 cycles:\n{frame}"
    assert perf_script.looks_like(text.encode())
    found = read(text)
    assert [found.whos[it].comm for it in found.who] == ["bash", "cafe"]
    assert [found.frames.names(it) for it in found.stack] == [("main",), ("main",)]
    assert len(found.notes) == 1 and "line 1" in found.notes[0] and "what is this" in found.notes[0]
    assert found.clock == "none" and found.origin.measure == "cycles"


def test_samples_are_sorted_by_time() -> None:
    found = read("".join(f"a {at} {at}.0: x: {FRAMES}" for at in (3, 1, 2)))
    assert found.tid.tolist() == [1, 2, 3]


def test_damage_is_told_and_costs_only_itself() -> None:
    found = read(f"a 1 1.0: x: {FRAMES}\x1b[2J nonsense\n\na 1 2.0: x: {FRAMES}a 1 3.0: x: \n\t  400 ma")
    assert len(found) == 3
    assert found.notes == ("line 4 is not understood: '\\x1b[2J nonsense'",)
    lost = read(f"a 1 1.0: x: {FRAMES.strip(chr(10))}\nnonsense\n\t 5 not_of_a (/x)\n")
    assert [it.name for it in lost.frames[0]] == ["main"] and len(lost.notes) == 2
    many = read(f"a 1 1.0: x: {FRAMES}" + "nonsense\n" * 10)
    assert len(many.notes) == gathering.MOST_TOLD + 1 and many.notes[-1] == "7 more lines are not understood"


@pytest.mark.parametrize("text", [b"\x7fELF\x00\x01", b"hello\nworld\n", b"{}", b"\xff" * 5000])
def test_what_is_no_perf_script_is_refused_with_its_first_line(text: bytes) -> None:
    assert not perf_script.looks_like(text)
    with pytest.raises(Unparsable, match=r"capture.txt: line 1 is not understood"):
        read(text)


def test_a_header_without_samples_is_empty_and_says_so() -> None:
    found = read("# ========\n# captured on: today\n")
    assert len(found) == 0 and found.notes == ("it has no samples",)


@pytest.mark.parametrize("text", [b" " * 3_000_000, b"a " * 1_000_000, b"(" * 2_000_000, b"\t4 " + b")" * 2_000_000])
def test_a_line_without_an_end_takes_no_time_without_an_end(text: bytes) -> None:
    found = read(b"a 1 1.0: x: \n\t 400 main (/bin/x)\n" + text)
    assert len(found) == 1


def test_memory_stays_bounded_when_nothing_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_script, "_MOST_KEPT", 8)
    monkeypatch.setattr(gathering, "MOST_SAMPLES", 30)
    reader = perf_script._Reader("x")
    for number in range(50):
        reader.take(f"a 1 {number}.0: x: \n\t {number:x} f+{number:#x} (/x)".encode())
    assert len(reader._stacks) <= 9 and len(reader._places) <= 9
    assert reader.capture().frames[0] == [Function("f", False, "/x")] and len(reader.capture().frames) == 1
    text = "".join(f"a 1 {number}.0: x: {FRAMES}" for number in range(50))
    assert read(text).notes == ("only the first 30 samples were read: more would not fit into memory",)


@pytest.mark.parametrize("name", COUNTS)
def test_every_capture_of_others_opens(name: str) -> None:
    found = read(others(name))
    assert len(found) == COUNTS[name] and not found.notes
    assert perf_script.looks_like(others(name)[:4096])


def test_flamescope_s_stacks_are_at_the_second_and_offset_that_their_names_state() -> None:
    found = read(others("flamescope-perf.test01"))
    cells, right = grid(found), 0
    for row in found.busy.nonzero()[0].tolist():
        leaf = found.frames[int(found.stack[row])][-1].name
        stated = re.search(r"STACK-\d_at_time_(\d+)s_and_offset_(\d+)ms", leaf)
        assert stated is not None
        second, offset = int(stated[1]), int(stated[2])
        column = (int(found.at[row]) - cells.start) // cells.column
        right += column == second and cells.heat[offset // 20, second] == 1
    assert right == 5 == cells.heat.sum()


def test_a_thousand_damaged_inputs() -> None:
    """100,000 of them: python -m tests.profile.fuzz_text 100000."""
    assert fuzz(int(os.environ.get("ZOMBIESCOPE_FUZZ", "1000")), seed=6) > 100
