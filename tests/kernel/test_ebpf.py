"""The assembler, against encodings written out by hand from the instruction-set document."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R7, R9, R10, Assembler, Helper, field

RECORD = np.dtype([("first", "u8"), ("second", "u4"), ("third", "u2"), ("fourth", "u1")])


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda a: a.set(R0, 0), "b7 00 00 00 00 00 00 00"),
        (lambda a: a.set(R6, R1), "bf 16 00 00 00 00 00 00"),
        (lambda a: a.add(R1, -8), "07 01 00 00 f8 ff ff ff"),
        (lambda a: a.add(R1, R2), "0f 21 00 00 00 00 00 00"),
        (lambda a: a.add(R1, 0), ""),
        (lambda a: a.subtract(R0, R1), "1f 10 00 00 00 00 00 00"),
        (lambda a: a.subtract(R1, 40), "17 01 00 00 28 00 00 00"),
        (lambda a: a.multiply(R1, 1000), "27 01 00 00 e8 03 00 00"),
        (lambda a: a.mask(R2, 3), "57 02 00 00 03 00 00 00"),
        (lambda a: a.shift_left(R1, 3), "67 01 00 00 03 00 00 00"),
        (lambda a: a.shift_right(R2, 48), "77 02 00 00 30 00 00 00"),
        (lambda a: a.load(R1, R6, 8), "79 61 08 00 00 00 00 00"),
        (lambda a: a.load(R1, R10, -4, size=4), "61 a1 fc ff 00 00 00 00"),
        (lambda a: a.load(R3, R2, 2, size=2), "69 23 02 00 00 00 00 00"),
        (lambda a: a.load(R3, R2, 1, size=1), "71 23 01 00 00 00 00 00"),
        (lambda a: a.store(R10, -8, R1), "7b 1a f8 ff 00 00 00 00"),
        (lambda a: a.store(R10, -4, R1, size=4), "63 1a fc ff 00 00 00 00"),
        (lambda a: a.store(R7, 16, -1), "7a 07 10 00 ff ff ff ff"),
        (lambda a: a.store(R7, 16, 0, size=1), "72 07 10 00 00 00 00 00"),
        (lambda a: a.load_map(R1, 5), "18 11 00 00 05 00 00 00 00 00 00 00 00 00 00 00"),
        (lambda a: a.load_map_value(R9, 5, 64), "18 29 00 00 05 00 00 00 00 00 00 00 40 00 00 00"),
        (lambda a: a.load_constant(R1, 0x1122334455667788), "18 01 00 00 88 77 66 55 00 00 00 00 44 33 22 11"),
        (lambda a: a.call(Helper.PROBE_READ_KERNEL), "85 00 00 00 71 00 00 00"),
        (lambda a: a.exit(), "95 00 00 00 00 00 00 00"),
        (lambda a: a.load_field(R1, R7, RECORD, "second"), "61 71 08 00 00 00 00 00"),
        (lambda a: a.store_field(R7, RECORD, "third", R1), "6b 17 0c 00 00 00 00 00"),
        (lambda a: a.store_field(R7, RECORD, "fourth", 1), "72 07 0e 00 01 00 00 00"),
    ],
)
def test_encoding(write: Callable[[Assembler], None], expected: str) -> None:
    program = Assembler()
    write(program)
    assert program.assemble().hex(" ") == expected


@pytest.mark.parametrize(
    ("relation", "code"),
    [("==", 0x15), (">", 0x25), (">=", 0x35), ("&", 0x45), ("!=", 0x55), ("<", 0xA5), ("<=", 0xB5)],
)
def test_relations(relation: str, code: int) -> None:
    program = Assembler()
    program.label("here")
    program.jump_if(R1, relation, 7, "here")
    program.jump_if(R1, relation, R2, "here")
    assert program.assemble() == bytes([code, 1, 0xFF, 0xFF, 7, 0, 0, 0]) + bytes(
        [code | 8, 0x21, 0xFE, 0xFF, 0, 0, 0, 0]
    )


def test_jumps_count_wide_instructions_twice() -> None:
    program = Assembler()
    program.jump("end")
    program.load_constant(R1, 1)
    program.label("end")
    program.exit()
    assert program.assemble()[:8].hex(" ") == "05 00 02 00 00 00 00 00"


def test_mistakes_in_a_program_are_refused() -> None:
    nowhere = Assembler()
    nowhere.jump("nowhere")
    with pytest.raises(ValueError, match="a label that is nowhere"):
        nowhere.assemble()
    twice = Assembler()
    twice.label("a")
    with pytest.raises(ValueError, match="there twice"):
        twice.label("a")
    with pytest.raises(ValueError, match="32 bits"):
        twice.set(R1, 1 << 31)
    far = Assembler()
    far.load(R1, R2, 1 << 15)
    with pytest.raises(ValueError, match="16 bits"):
        far.assemble()
    with pytest.raises(ValueError, match="no field fifth"):
        field(RECORD, "fifth")
