"""The BTF reader: on a blob written by hand, on this kernel with another witness, and on damaged input."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

import pytest
from tests.kernel.fuzz_btf import Blob, every_kind, fuzz

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel import bpf
from zombiescope.kernel.btf import VMLINUX, Btf
from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R9, Assembler, Helper

needs_btf = pytest.mark.skipif(not Path(VMLINUX).exists(), reason=f"this kernel has no {VMLINUX}")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: reads kernel memory with bpf(2)")


@pytest.mark.parametrize("order", ["<", ">"])
def test_members_are_found_through_names_that_are_not_there(order: str) -> None:
    btf = Btf(every_kind(order), "by hand")
    assert btf.offset("outer.head") == 0
    assert btf.offset("outer.first") == 8
    assert btf.offset("outer.second") == 12
    assert btf.offset("outer.whole") == 8
    assert btf.offset("outer.next") == 128
    assert btf.offset("choice_t.second") == 4


def test_sizes_and_lengths_of_arrays_of_arrays() -> None:
    btf = Btf(every_kind(), "by hand")
    assert (btf.size("outer"), btf.size("outer.grid"), btf.length("outer.grid")) == (200, 84, 21)
    assert (btf.size("outer.next"), btf.length("outer.next")) == (8, 1)


def test_the_first_name_this_kernel_has_is_taken() -> None:
    btf = Btf(every_kind(), "by hand")
    assert btf.offset("outer.of_tomorrow", "outer.second", "outer.head") == 12
    with pytest.raises(Unreadable, match=r"no outer\.this or outer\.that"):
        btf.offset("outer.this", "outer.that")


def test_features_are_asked_for() -> None:
    btf = Btf(every_kind(), "by hand")
    assert btf.has("outer")
    assert btf.has("outer.second")
    for absent in ("outer.nothing", "nobody", "nobody.first", "outer.next.first", "", "outer.", ".head", "int"):
        assert not btf.has(absent)


@pytest.mark.parametrize("order", ["<", ">"])
def test_bit_fields_of_both_styles(order: str) -> None:
    btf = Btf(every_kind(order), "by hand")
    assert btf.bits("fields.three") == (37, 3)
    assert btf.bits("fields.plain") == (0, 32)
    assert btf.bits("old_fields.narrow") == (34, 3)
    with pytest.raises(Unreadable, match="bit-field"):
        btf.offset("fields.three")


@pytest.mark.parametrize("order", ["<", ">"])
def test_enumerators_are_signed_and_wide(order: str) -> None:
    btf = Btf(every_kind(order), "by hand")
    assert (btf.enumerator("RED"), btf.enumerator("BELOW_ZERO"), btf.enumerator("HUGE")) == (0, -5, 0x2_0000_0001)
    assert not btf.has_enumerator("outer")
    with pytest.raises(Unreadable, match="no enumerator GREEN"):
        btf.enumerator("GREEN")


def test_every_truncation_is_told() -> None:
    whole = every_kind()
    for length in range(len(whole)):
        with pytest.raises(Unparsable):
            Btf(whole[:length], "cut")


def test_types_that_lead_to_themselves_end() -> None:
    blob = Blob()
    blob.add(8, "circle", 2)
    blob.add(10, "", 1)
    blob.add(3, "", 0, 3, 3, 1 << 31)
    blob.struct("holder", 8, ("typedef", 1, 0), ("array", 3, 0), ("", 5, 0))
    blob.struct("", 8, *[("", 5, 0)] * 5000, ("", 4, 0), ("deep", 6, 64))
    blob.add(1, "int", 4, 0x20)
    btf = Btf(blob.bytes(), "circles")
    with pytest.raises(Unparsable, match="names itself"):
        btf.size("holder.typedef")
    with pytest.raises(Unparsable, match="array of itself"):
        btf.size("holder.array")
    assert btf.offset("holder.deep") == 8
    assert not btf.has("holder.absent")


def test_a_type_that_is_not_there_is_told() -> None:
    blob = Blob()
    blob.struct("holder", 8, ("", 77, 0))
    with pytest.raises(Unparsable, match="type 77 of 1"):
        Btf(blob.bytes(), "beyond").has("holder.member")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "shorter than a BTF header"),
        (b"\x7fELF" + bytes(60), "ELF"),
        (bytes(64), "magic"),
        (struct.pack("<HBBIIIII", 0xEB9F, 2, 0, 24, 0, 0, 0, 1) + b"\0", "version 2"),
        (struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0xFFFFFFFF, 0, 1) + b"\0", "beyond"),
        (struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, 0), "names"),
        (struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 3, 3, 1) + bytes(4), "whole words"),
        (
            struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 12, 12, 1) + struct.pack("<III", 0, 127 << 24, 0) + b"\0",
            "kind",
        ),
    ],
)
def test_what_is_not_btf_is_told(data: bytes, says: str) -> None:
    with pytest.raises((Unparsable, Unreadable), match=says):
        Btf(data, "hostile")


def test_a_file_that_is_not_there_and_one_without_end(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="CONFIG_DEBUG_INFO_BTF"):
        Btf.load(str(tmp_path / "absent"))
    with pytest.raises(Unreadable, match="directory"):
        Btf.load(str(tmp_path))
    with pytest.raises(Unreadable, match="larger than 256 MB"):
        Btf.load("/dev/zero")


def test_a_few_hundred_damaged_blobs() -> None:
    assert 0 < fuzz(300, seed=23) < 300


@needs_btf
def test_this_kernel_is_read_in_no_time() -> None:
    started = time.process_time()
    btf = Btf.load()
    assert btf.offset("mem_cgroup.css.cgroup") >= 0
    assert btf.enumerator("BPF_FUNC_map_lookup_elem") == 1
    assert time.process_time() - started < 1.0  # 0.06 s here; a shared machine may be slower


# The witness is the running kernel: a program reads our own task at these offsets, and /proc tells what must be there.
@pytest.mark.kernel
@needs_root
@needs_btf
def test_offsets_lead_to_what_proc_tells() -> None:
    btf = Btf.load()
    with bpf.Array(4096, "test_task") as array:
        program = Assembler()
        program.load_map_value(R9, array.descriptor)
        program.call(Helper.GET_CURRENT_TASK)
        program.set(R6, R0)
        for into, size, path in (
            (0, 4, "task_struct.tgid"),
            (8, 16, "task_struct.comm"),
            (24, 8, "task_struct.start_time"),
        ):
            program.set(R3, R6)
            program.add(R3, btf.offset(path))
            program.set(R1, R9)
            program.add(R1, into)
            program.set(R2, size)
            program.call(Helper.PROBE_READ_KERNEL)
        program.set(R0, 0)
        program.exit()
        with bpf.Program(program.assemble(), "test_task") as loaded:
            loaded.run()
        pid, name, started_ns = struct.unpack_from("=I4x16sQ", array.read(64))
    comm = Path("/proc/self/comm").read_bytes().rstrip(b"\n")
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    assert pid == os.getpid()
    assert name.rstrip(b"\0") == comm
    assert abs(started_ns / 1e9 - ticks / os.sysconf("SC_CLK_TCK")) < 60  # start_time does not count suspended time
