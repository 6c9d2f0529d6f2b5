"""perf.data, written by hand, read back: who, when, where, in which functions; and what is damaged."""

from __future__ import annotations

import struct

import pytest
from tests.naming.elf_file import ElfFile, Symbol
from tests.profile.fuzz_perf_data import fuzz
from tests.profile.perf_data_file import (
    CALLCHAIN,
    CGROUP,
    CPU,
    GARBAGE,
    IDENTIFIER,
    IP,
    KERNEL,
    PLAIN,
    READ,
    TID,
    TIME,
    USER,
    PerfData,
    attr,
    build_id_fact,
    one_of_everything,
    text_fact,
)

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Samples
from zombiescope.naming.kallsyms import Kernel
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.naming.perf_map import PerfMap
from zombiescope.naming.symbols import Symbols
from zombiescope.profile import perf_data

KALLSYMS = b"""ffffffff81000000 T _text
ffffffff81000100 T read_stat
ffffffff81000200 T vfs_read
ffffffff81000300 T pv_native_safe_halt
ffffffff81000400 T _etext
"""
WORK, OUTER = 0xFFFFFFFF81000110, 0xFFFFFFFF81000210  # read_stat, called by vfs_read
PROGRAMS = {
    "/bin/first": ElfFile(
        symbols=(Symbol(name="run", value=0x401000, size=0x100), Symbol(name="main", value=0x401100, size=0x100))
    ),
    "/bin/second": ElfFile(symbols=(Symbol(name="other", value=0x401000, size=0x700),), build_id=b"2" * 20),
}


def read(
    data: bytes, *, kernel: bool = True, label: str = "perf.data", event: str | None = None, stacks: bool = True
) -> Samples:
    def program(path: str, _build_id: str) -> bytes | None:
        return PROGRAMS[path].written() if path in PROGRAMS else None

    def find(_kernel: Kernel | None, _release: str) -> KallsymsText | None:
        return KallsymsText(KALLSYMS) if kernel else None

    return perf_data.capture(
        lambda at, size: data[at : at + size],
        len(data),
        find,
        lambda found: Symbols(found, program),
        label=label,
        event=event,
        stacks=stacks,
    )


def told(capture: Samples) -> list[tuple[int, int, str, str]]:
    """At, core, comm, and the stack, outermost first."""
    stacks = [";".join(it.name for it in capture.frames[stack]) for stack in capture.stack.tolist()]
    comms = [capture.whos[who].comm for who in capture.who.tolist()]
    return list(zip(capture.at.tolist(), capture.cpu.tolist(), comms, stacks, strict=True))


def test_every_sample_has_its_time_core_name_and_functions() -> None:
    found = read(one_of_everything().file())
    assert told(found) == [
        (1000, 0, "bash", "run;vfs_read;read_stat"),
        (1600, 0, "bash", "main;run"),  # forked: it has its parent's name and program
        (1700, 1, "swapper", "pv_native_safe_halt"),
        (2600, 0, "second_program_x", "other;other"),  # the same addresses, of another program
        (2900, 1, "worker", "other;other;vfs_read"),
        (3100, 0, ":99", "vfs_read"),  # nothing was told of it; perf writes its number
    ]
    assert [found.whos[who].pid for who in found.who.tolist()] == [7, 8, 0, 8, 8, 99]
    assert found.tid.tolist() == [7, 8, 0, 8, 88, 99]
    groups = [found.whos[who].cgroup for who in found.who.tolist()]
    assert groups == ["/kubepods/pod1", "/kubepods/pod1", "", "/kubepods/pod1", "cgroup:11", ""]
    assert (found.hz, found.clock, found.unit) == (999.0, "machine", "samples")
    assert found.idle[found.stack].tolist() == [False, False, True, False, False, False]


def test_what_was_lost_or_spoilt_is_told_and_the_rest_of_a_spoilt_stack_is_kept() -> None:
    assert [note.split()[0] for note in read(one_of_everything().file()).notes] == ["5", "1"]
    made = PerfData()
    made.sample(1, KERNEL, WORK, USER, GARBAGE)
    assert told(read(made.file()))[0][3] == "read_stat"


def test_without_the_kernels_symbols_of_that_boot_it_says_so() -> None:
    found = read(one_of_everything().file(features={4: text_fact(b"6.1.0-9-cloud")}), kernel=False)
    assert "6.1.0-9-cloud" in found.notes[0] and "kallsyms" in found.notes[0]
    assert told(found)[0][3] == "run;0xffffffff81000210;0xffffffff81000110"
    assert not found.idle.any()


def test_a_program_of_another_build_gives_no_names() -> None:
    made = PerfData()
    made.comm(0, 7, b"first")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/bin/first", build_id=b"other build id 20 by")
    made.mmap(0, 7, 0x500000, 0x3000, 0, b"/bin/second")
    made.sample(1, USER, 0x401010, 0x501010)
    facts = {2: build_id_fact(b"/bin/second", b"2" * 20)}
    assert told(read(made.file(features=facts)))[0][3] == "other;[first]"
    facts = {2: build_id_fact(b"/bin/second", b"3" * 20)}
    assert told(read(made.file(features=facts)))[0][3] == "[second];[first]"


@pytest.mark.parametrize("device", [0xFE, 8])
def test_a_device_and_an_inode_that_are_marked_as_a_build_id_are_none(device: int) -> None:
    """As the kernel marks them while another profiler records build-ids."""
    made = PerfData()
    made.comm(0, 7, b"first")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/bin/first", misc=2 | 1 << 14)
    record = made.records[-1]
    made.records[-1] = record[:40] + struct.pack("<IIQQ", device, 1, 260708, 138332163) + record[64:]
    made.sample(1, USER, 0x401010)
    assert told(read(made.file()))[0][3] == "run"


def test_code_made_at_run_time_is_named_by_the_map_of_its_process() -> None:
    made = PerfData()
    for pid in (7, 8):
        made.comm(0, pid, b"node")
        made.mmap(0, pid, 0x7F0000000000, 0x10000, 0, b"//anon")
        made.sample(pid, USER, 0x7F0000000110, pid=pid)
    maps = {7: PerfMap.parse(b"7f0000000100 40 LazyCompile:~parse app.js:12\n")}
    data = made.file()
    found = perf_data.capture(
        lambda at, size: data[at : at + size], len(data), lambda *_: None, lambda _: Symbols(perf_maps=maps)
    )
    assert [row[3] for row in told(found)] == ["LazyCompile:~parse app.js:12", "[unknown]"]


@pytest.mark.parametrize("size", [64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 200])
@pytest.mark.parametrize("magic", [b"PERFILE2", b"PERFFILE"])
def test_files_of_every_age(size: int, magic: bytes) -> None:
    made = one_of_everything()
    event = attr(size=size, sample_type=made.sample_type)
    for short in (False, True):
        assert told(read(made.file([(event, [1])], magic=magic, short=short))) == told(read(made.file()))


def test_what_came_through_a_pipe() -> None:
    made = one_of_everything()
    assert told(read(made.piped())) == told(read(made.file()))
    with pytest.raises(Unparsable, match="without events"):
        read(b"PERFILE2" + struct.pack("<Q", 16))


def test_a_recorder_that_was_killed_never_wrote_the_size() -> None:
    found = read(one_of_everything().file(killed=True))
    assert len(found) == 6 and "never written" in found.notes[0]


def test_only_samples_of_one_event_are_taken() -> None:
    asked = PLAIN | IDENTIFIER
    made = PerfData(asked)
    dummy, clock, switches = attr(1, 9, sample_type=asked), attr(sample_type=asked), attr(2, 317, sample_type=asked)
    made.sample(1, KERNEL, WORK, event=12)
    made.sample(2, KERNEL, WORK, event=13)
    made.sample(3, KERNEL, WORK, event=20)
    found = read(made.file([(dummy, [5]), (clock, [12, 13]), (switches, [20])]))
    assert found.at.tolist() == [1, 2]
    assert found.notes == ("1 samples of other events are left out: --event chooses",)


@pytest.mark.parametrize(
    ("read_format", "words"), [(0, [5]), (7, [5, 6, 7, 1]), (4 | 8, [2, 50, 1, 60, 2]), (31, [1, 6, 7, 50, 1, 0])]
)
def test_counters_in_samples_are_passed_over(read_format: int, words: list[int]) -> None:
    made = PerfData(PLAIN | READ)
    made.sample(1, KERNEL, WORK, OUTER, read=words)
    event = attr(sample_type=made.sample_type, read_format=read_format)
    assert told(read(made.file([(event, [1])])))[0][3] == "vfs_read;read_stat"


def test_a_sample_without_a_chain_has_the_address_it_was_taken_at() -> None:
    made = PerfData(IP | TID | TIME | CPU)
    made.comm(0, 7, b"first")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/bin/first")
    made.sample(1, ip=WORK, misc=1)
    made.sample(2, ip=0x401010, misc=2)
    assert [row[3] for row in told(read(made.file()))] == ["read_stat", "run"]
    made = PerfData(TIME | CALLCHAIN)
    made.sample(1, KERNEL, WORK)
    found = read(made.file())
    assert (found.cpu[0], found.tid[0], found.whos[0].pid) == (-1, -1, -1)


def test_a_chosen_clock_is_turned_into_wall_clock_time() -> None:
    chosen = attr(more=1 << 25)
    monotonic = chosen[:92] + struct.pack("<i", 1) + chosen[96:]
    made = PerfData()
    made.sample(1000, KERNEL, WORK)
    clock = struct.pack("<IIQQ", 1, 1, 1_700_000_000_000_000_000, 600)
    found = read(made.file([(monotonic, [1])], features={29: clock}))
    assert (found.clock, found.at.tolist()) == ("unix", [1_700_000_000_000_000_400])
    realtime = chosen[:92] + struct.pack("<i", 0) + chosen[96:]
    assert read(made.file([(realtime, [1])])).clock == "unix"


def test_hostile_names_survive() -> None:
    made = PerfData(PLAIN | CGROUP)
    made.comm(0, 7, b"\x1b[31m\n\xff")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/\xff\n" * 80)
    made.cgroup(0, 3, b"/" + b"\n\xfe" * 120)
    made.sample(1, USER, 0x401010, cgroup=3)
    found = read(made.file())
    assert found.whos[0].comm.encode("utf-8", "surrogateescape") == b"\x1b[31m\n\xff"
    assert len(found.whos[0].cgroup) == 241
    assert told(found)[0][3] == "[\udcff\n]"


def test_files_larger_than_a_piece_and_records_across_its_border() -> None:
    made = PerfData()
    for at in range(200):
        made.sample(at, KERNEL, *(WORK + each for each in range(at % 50 + 1)), cpu=at % 4)
    once = read(made.file())
    made.records *= 400  # 24 MB, in pieces of 4
    found = read(made.file())
    assert len(found) == 80_000 and len(found.idle) == len(once.idle) == 50
    assert (found.at[::400] == once.at).all() and not found.notes


def test_more_stacks_than_are_named_at_a_time() -> None:
    made = PerfData()
    made.comm(0, 7, b"deep")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/bin/first")
    for at in range(1500):
        made.sample(at, KERNEL, WORK, USER, *[0x401010 + at % 2 * 0x100] * (1400 + at))
    found = read(made.file())  # 3.2 million addresses in 1,500 stacks
    for at, stack in enumerate(found.stack.tolist()):
        names = [it.name for it in found.frames[stack]]
        assert names == [["run", "main"][at % 2]] * (1400 + at) + ["read_stat"]
    assert len(found.frames) == len(found.idle) == 1500


def test_what_comes_before_the_damage_is_shown_and_the_note_says_where() -> None:
    data = one_of_everything().file()
    whole = told(read(data))
    start = struct.unpack_from("<Q", data, 40)[0]
    for cut in range(0, len(data), 8):
        try:
            found = read(data[:cut])
        except Unparsable as error:
            assert cut < start, f"cut at {cut}: {error}"
            continue
        assert told(found) == whole[: len(found)]
        assert any("cut off" in note or "offset" in note for note in found.notes)
    bad = bytearray(data)
    bad[start + 400 : start + 408] = bytes(8)
    found = read(bytes(bad))
    assert told(found) == whole[: len(found)] and f"offset {start}" not in found.notes[0]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes"),
        (b"PERFILE2", "not perf.data"),
        (b"2ELIFREP" + bytes(100), "big-endian"),
        (b"\x7fELF" + bytes(200), "not perf.data"),
        (b"PERFILE2" + struct.pack("<Q", 99) + bytes(200), "header of 99 bytes"),
        (b"PERFILE2" + struct.pack("<8Q", 104, 1 << 60, 104, 1 << 40, 104, 0, 0, 0) + bytes(40), "bytes of events"),
    ],
)
def test_what_is_no_perf_data_is_refused_with_offset_and_reason(data: bytes, why: str) -> None:
    with pytest.raises(Unparsable) as refused:
        read(data)
    assert why in refused.value.text and refused.value.source == "perf.data"


def test_damaged_files() -> None:
    assert 0 < fuzz(700, seed=6) < 700


def test_an_id_tells_the_event_of_a_sample_wherever_it_is() -> None:
    made = PerfData()
    made.sample(1, KERNEL, WORK, event=2)
    made.sample(2, KERNEL, WORK, event=1)
    made.sample(3, KERNEL, WORK, event=1)
    found = read(made.file([(attr(), [1]), (attr(2, 5), [2])]))
    assert (found.at.tolist(), found.notes) == ([2, 3], ("1 samples of other events are left out: --event chooses",))
