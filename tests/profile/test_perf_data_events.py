"""perf.data of several events, of clocks, and with calls that the processor recorded."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from tests.profile.perf_data_file import IDENTIFIER, KERNEL, PLAIN, USER, PerfData, attr, event_fact, one_of_everything
from tests.profile.test_perf_data import WORK, read, told

from zombiescope.core.errors import UserError
from zombiescope.core.samples import Function, Who
from zombiescope.profile.chosen import Chosen, naming
from zombiescope.profile.gathering import Gathering
from zombiescope.profile.heatmap import heatmap
from zombiescope.profile.joined import joined
from zombiescope.profile.tree import planted

BRANCH_STACK, RAW = 1 << 11, 1 << 10
RUN, MAIN = 0x401010, 0x401110
BPF = 0xFFFFFFFFC0025BA0


def test_periods_of_a_clock_that_differ_are_what_samples_stand_for() -> None:
    for periods, unit, weights in (((5, 5), "samples", [1, 1]), ((5, 7), "nanoseconds", [5, 7])):
        made = PerfData()
        for at, period in enumerate(periods):
            made.sample(at, KERNEL, WORK, period=period)
        found = read(made.file())
        assert (found.unit, found.weight.tolist()) == (unit, weights)
    made.sample(9, KERNEL, WORK, period=1 << 62)
    assert int(heatmap(read(made.file()), 1).sum()) > 0  # and no memory for each nanosecond of it


def test_events_are_named_and_chosen() -> None:
    asked = PLAIN | IDENTIFIER
    made = PerfData(asked)
    for at in range(5):
        made.sample(at, KERNEL, WORK, event=1 if at else 7)
    events = [(attr(sample_type=asked), [7]), (attr(2, 317, sample_type=asked), [1])]
    names = {12: event_fact((events[0][0], b"cpu-clock:ppp", [7]), (events[1][0], b"sched:sched_switch", [1]))}
    found = read(made.file(events, features=names))
    assert (len(found), found.origin.measure, found.origin.others) == (1, "cpu-clock:ppp", ("sched:sched_switch",))
    assert len(read(made.file(events, features=names), event="sched:sched_switch")) == 4
    assert len(read(made.file(events), event="tracepoint 317")) == 4  # without names of its own
    with pytest.raises(UserError, match="no event 'cycles': --event takes cpu-clock:ppp, sched:sched_switch"):
        read(made.file(events, features=names), event="cycles")
    for damaged in (names[12][:9], names[12][:-9], names[12][:4] + b"\xff" * 4 + names[12][8:]):
        assert len(read(made.file(events, features={12: damaged}))) == 1


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("index", [False, True])
def test_calls_recorded_by_the_processor_are_the_user_s_stack(index: bool, raw: bool) -> None:
    """As resolve_lbr_callchain_sample has it: the kernel's part, the last call's target, where each call came from."""
    asked = PLAIN | BRANCH_STACK | RAW * raw
    made = PerfData(asked)
    made.comm(0, 7, b"bash")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/bin/first")
    before = [struct.unpack("<Q", struct.pack("<I4s", 4, b"raw!"))[0]] if raw else []
    some = [0] if index else []
    calls = [2, *some, MAIN, RUN, 0, MAIN + 8, MAIN, 0]  # each: from, to, flags
    made.sample(1, KERNEL, WORK, USER, RUN, 0x7777, behind=[*before, *calls])
    made.sample(2, KERNEL, WORK, behind=[*before, *calls])
    made.sample(3, USER, RUN, behind=[*before, 0, *some])
    made.sample(4, USER, RUN, behind=[*before, 1 << 60, *some])
    made.sample(5, USER, RUN, behind=[*before, 9, *some])
    made.sample(6, USER, RUN, behind=before)
    event = attr(sample_type=asked, branches=1 | 1 << 11 | (1 << 17) * index)
    found = read(made.file([(event, [1])]))
    assert [stack for *_, stack in told(found)] == ["main;main;run;read_stat", "read_stat", *["run"] * 4]
    # Any branches, and not calls alone, are no stack.
    plain = read(made.file([(attr(sample_type=asked, branches=1 | (1 << 17) * index), [1])]))
    assert told(plain)[0][3] == "[unknown];run;read_stat"


def test_a_thread_is_not_called_by_the_name_it_got_later() -> None:
    made = PerfData()
    made.sample(500, KERNEL, WORK, pid=7)
    made.sample(600, KERNEL, WORK, pid=8)
    made.comm(700, 7, b"later")
    made.fork(800, 9, 7)
    made.sample(900, KERNEL, WORK, pid=7)
    assert [comm for _, _, comm, _ in told(read(made.file()))] == [":7", ":8", "later"]
    made.comm(0, 7, b"before")
    assert [comm for _, _, comm, _ in told(read(made.file()))] == ["before", ":8", "later"]


@pytest.mark.parametrize("longer", [0, 32])
def test_bpf_programs_have_the_names_they_were_loaded_with(longer: int) -> None:
    """kallsyms has no BPF program of then: some were taken out, and their places given to others."""
    made = PerfData()
    for at, address, name, gone in ((0, BPF, b"old", False), (200, BPF, b"old", True), (300, BPF + 16, b"new", False)):
        made.ksymbol(at, address, 128, b"bpf_prog_" + name, gone=gone, longer=longer)
    for at, address in ((100, BPF), (250, BPF + 8), (350, BPF + 8), (350, BPF + 20), (50, BPF + 200), (60, WORK)):
        made.sample(at, KERNEL, address, WORK, cpu=address & 31)
    found = read(made.file())
    names = {(at, cpu): stack for at, cpu, _, stack in told(found)}
    assert names[100, 0] == names[250, 8] == names[350, 8] == "read_stat;bpf_prog_old"
    assert names[350, 20] == "read_stat;bpf_prog_new"
    assert names[50, 8] == "read_stat;[unknown]"
    assert Function("bpf_prog_new", True, "bpf") in found.frames.functions


def test_a_process_cannot_make_up_frames_of_the_kernel() -> None:
    """What is on its stack is in the chain as it is, marks too."""
    made = PerfData()
    made.sample(1, KERNEL, WORK, USER, RUN, KERNEL, WORK)
    made.sample(2, USER, RUN, KERNEL, WORK, USER, RUN)
    found = read(made.file())
    kernel = [[it.kernel for it in found.frames[stack]] for stack in found.stack.tolist()]
    assert kernel == [[False, False, True], [False] * 3]


def test_only_the_stacks_that_are_shown_need_names() -> None:
    whole = read(one_of_everything().file())
    some = naming(whole, np.array([0, 3]))
    shown = whole.stack[[0, 3]].tolist()
    assert [some.frames[it] for it in shown] == [whole.frames[it] for it in shown]
    assert all(not some.frames[it] for it in range(len(whole.frames)) if it not in shown)
    assert len(some.frames.functions) < len(whole.frames.functions)
    assert planted(some).flame(Chosen(end=1001)).all == 1
    both = joined([read(one_of_everything().file()), read(one_of_everything().file())], "both")
    rows = np.flatnonzero(both.at == 1000)
    part = naming(both, rows)
    assert [part.frames[it] for it in both.stack[rows]] == [whole.frames[whole.stack[0]]] * 2
    assert sum(bool(part.frames[it]) for it in range(len(part.frames))) == 2


def test_functions_compiled_into_others_are_split() -> None:
    made = Gathering("x")
    agent = Function("A->B->C", False, "/tmp/perf-7.map")
    plain = Function("T::operator->", False, "/bin/x")
    numbers = [made.function(it) for it in (Function("main", False), agent, plain)]
    for stack in (numbers, numbers[::-1], numbers[:1]):
        made.add(at=0, cpu=0, tid=1, who=made.who(Who(1, "java")), stack=made.stack(stack))
    frames = made.capture().frames
    assert [frames.names(it) for it in range(3)] == [
        ("main", "A", "B", "C", "T::operator->"),
        ("T::operator->", "A", "B", "C", "main"),
        ("main",),
    ]
