"""bpf(2) for real: arrays and programs on this kernel, and the words a refusal is told in."""

from __future__ import annotations

import os
import resource

import pytest
from tests.kernel.refused import why_not

from zombiescope.core.errors import Unreadable
from zombiescope.kernel import bpf
from zombiescope.kernel.ebpf import R0, R1, R2, R9, Assembler, Helper

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: bpf(2) refuses everyone else"),
]


def counter(array: bpf.Array) -> bytes:
    """A program that adds one to the first eight bytes."""
    program = Assembler()
    program.load_map_value(R9, array.descriptor)
    program.load(R1, R9)
    program.add(R1, 1)
    program.store(R9, 0, R1)
    program.set(R0, 0)
    program.exit()
    return program.assemble()


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_program_run_on_demand_leaves_its_trace() -> None:
    before = open_descriptors()
    with bpf.Array(4096, "test_counter") as array, bpf.Program(counter(array), "test_counter") as program:
        array.write((40).to_bytes(8, "little"))
        program.run()
        program.run()
        assert array.read(8) == (42).to_bytes(8, "little")
    assert open_descriptors() == before


def test_an_array_that_cannot_be_mapped_is_copied() -> None:
    with bpf.Array(4096, "test_copied") as array:
        array.write(b"first and last")
        assert array._mapped is not None
        array._mapped.close()
        array._mapped = None  # as on a kernel before 5.5
        array.write(b"FIRST")
        assert array.read(14) == b"FIRST and last"


def test_a_program_at_a_tracepoint_runs_at_each_passing() -> None:
    with bpf.Array(4096, "test_attached") as array, bpf.Program(counter(array), "test_attached") as program:
        program.attach("sys_enter")
        for _ in range(23):
            os.getppid()
        assert int.from_bytes(array.read(8), "little") >= 23


def test_the_verifiers_own_words_are_told() -> None:
    program = Assembler()
    program.load(R0, R2)
    program.exit()
    with pytest.raises(Unreadable, match=r"the verifier refuses the program .*R2 !read_ok"):
        bpf.Program(program.assemble(), "test_refused")


def test_a_helper_this_kernel_does_not_have_is_told() -> None:
    program = Assembler()
    program.call(100_000)
    program.exit()
    with pytest.raises(Unreadable, match="invalid func"):
        bpf.Program(program.assemble(), "test_helper")


def test_a_tracepoint_that_is_not_there_is_told() -> None:
    with (
        bpf.Array(4096, "test_absent") as array,
        bpf.Program(counter(array), "test_absent") as program,
        pytest.raises(Unreadable, match="attaching to no_such_tracepoint: No such file"),
    ):
        program.attach("no_such_tracepoint")


def test_an_array_too_large_is_told_and_nothing_left_open() -> None:
    before = open_descriptors()
    with pytest.raises(Unreadable, match="making an array"):
        bpf.Array(0xFFFF_F000, "test_large")
    assert open_descriptors() == before


def test_without_capabilities_the_missing_ones_are_named() -> None:
    told = why_not("os.setresuid(65534, 65534, 65534)", "bpf.Array(4096, 'test')")
    assert "needs CAP_BPF and CAP_PERFMON, or root; this process lacks CAP_BPF and CAP_PERFMON" in told


# A classic BPF filter: bpf(2) answers EPERM, everything else is allowed; as container runtimes do.
def test_a_seccomp_filter_is_suspected_where_capabilities_are_held() -> None:
    before = (
        "refuse, allow = (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)\n"
        "code = struct.pack('=' + 'HBBI' * 4, 0x20, 0, 0, 0, 0x15, 0, 1, bpf.BPF.number(), *refuse, *allow)\n"
        "program = ctypes.create_string_buffer(code, len(code))\n"
        "filter = ctypes.create_string_buffer(struct.pack('@HP', 4, ctypes.addressof(program)))\n"
        "assert ctypes.CDLL(None).prctl(22, 2, filter) == 0"
    )
    told = why_not(before, "bpf.Array(4096, 'test')")
    assert "a seccomp filter (of its container or service) blocks it" in told


def test_the_limit_on_locked_memory_is_put_back() -> None:
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    with bpf._all_the_locked_memory_we_may_have():
        assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] in (before[1], resource.RLIM_INFINITY)
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before


def test_helper_numbers_are_those_of_this_kernel() -> None:
    from zombiescope.kernel.btf import Btf

    btf = Btf.load()
    for helper in Helper:
        assert btf.enumerator(f"BPF_FUNC_{helper.name.lower()}") == helper
