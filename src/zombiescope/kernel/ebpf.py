"""A small eBPF assembler: registers, labels, jumps and the fields of a record by name.

The instruction set: https://docs.kernel.org/bpf/standardization/instruction-set.html. Here is only what our programs
use: 64-bit arithmetic, loads and stores, jumps, helper calls. Assembling at run time with offsets taken from the
kernel's BTF does what CO-RE does, without a compiler on the node and without a binary in the package.
A mistake in a program is ours, not the machine's, so it raises ValueError.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # the capture process assembles programs, and has no numpy
    import numpy as np


class Register(IntEnum):
    """R0: results; R1-R5: arguments, lost in a call; R6-R9: kept across calls; R10: top of the stack, read-only."""

    R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 = range(11)


R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 = Register


class Helper(IntEnum):
    """Kernel functions a program may call, by their number in enum bpf_func_id."""

    MAP_LOOKUP_ELEM = 1
    MAP_UPDATE_ELEM = 2
    PROBE_READ = 4
    KTIME_GET_NS = 5
    GET_CURRENT_PID_TGID = 14
    GET_CURRENT_TASK = 35
    PROBE_READ_STR = 45
    GET_CURRENT_CGROUP_ID = 80  # of version 2, since bf6fa2c893c5 (v4.18); for tracing programs since the same
    PROBE_READ_KERNEL = 113  # 113 and 115 since 6ae08ae3dea2 (v5.5); before, the two above read user memory as well
    PROBE_READ_KERNEL_STR = 115
    JIFFIES64 = 118  # for tracing since 72e2b2b66f9c (v5.9); the kernel replaces the call by one load


INSTRUCTION_BYTES = 8

_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_RELATIONS = {"==": 0x10, ">": 0x20, ">=": 0x30, "&": 0x40, "!=": 0x50, "<": 0xA0, "<=": 0xB0}  # unsigned
_ALU64, _JMP, _LDX, _ST, _STX, _LD_IMM64 = 0x07, 0x05, 0x61, 0x62, 0x63, 0x18
_FROM_REGISTER = 0x08
_ATOMIC = 0xDB  # of 8 bytes; its constant says what is done, 0: add
_CALL, _EXIT = 0x85, 0x95
_MAP_FD, _MAP_VALUE = 1, 2  # what the constant of a 64-bit load stands for


class _Instruction(NamedTuple):
    code: int
    target: int
    source: int
    offset: int | str  # a label, until assembled
    constant: int


class Assembler:
    """A program being written. Values are registers or numbers; a number must fit in 32 bits, signed."""

    def __init__(self) -> None:
        self._instructions: list[_Instruction] = []
        self._labels: dict[str, int] = {}

    def label(self, name: str) -> None:
        """Name the next instruction, for jumps."""
        if name in self._labels:
            raise ValueError(f"label {name} is there twice")
        self._labels[name] = len(self._instructions)

    def set(self, target: Register, value: Register | int) -> None:
        self._arithmetic(0xB0, target, value)

    def add(self, target: Register, value: Register | int) -> None:
        if isinstance(value, Register) or value != 0:
            self._arithmetic(0x00, target, value)

    def subtract(self, target: Register, value: Register | int) -> None:
        self._arithmetic(0x10, target, value)

    def multiply(self, target: Register, value: Register | int) -> None:
        self._arithmetic(0x20, target, value)

    def divide(self, target: Register, value: Register | int) -> None:
        """Unsigned; by zero gives 0."""
        self._arithmetic(0x30, target, value)

    def mask(self, target: Register, value: Register | int) -> None:
        """Keep only the bits of `value` (bitwise and)."""
        self._arithmetic(0x50, target, value)

    def shift_left(self, target: Register, value: Register | int) -> None:
        self._arithmetic(0x60, target, value)

    def shift_right(self, target: Register, value: Register | int) -> None:
        self._arithmetic(0x70, target, value)

    def binary_logarithm(self, target: Register, value: Register, *, bits: int) -> None:
        """target = the place of the highest bit of `value`, which is lost; 0 for 0. `bits`: a power of two."""
        start = len(self._instructions)
        self.set(target, 0)
        while bits := bits // 2:
            self.jump_if(value, "<", 1 << bits, f"log2 {start} {bits}")
            self.shift_right(value, bits)
            self.add(target, bits)
            self.label(f"log2 {start} {bits}")

    def load(self, target: Register, base: Register, offset: int = 0, *, size: int = 8) -> None:
        """target = *(base + offset)"""
        self._emit(_LDX | _SIZES[size], target, base, offset, 0)

    def store(self, base: Register, offset: int, value: Register | int, *, size: int = 8) -> None:
        """*(base + offset) = value"""
        if isinstance(value, Register):
            self._emit(_STX | _SIZES[size], base, value, offset, 0)
        else:
            self._emit(_ST | _SIZES[size], base, 0, offset, value)

    def add_to(self, base: Register, offset: int, value: Register) -> None:
        """*(base + offset) += value, atomically: other cores may do so at the same time"""
        self._emit(_ATOMIC, base, value, offset, 0)

    def load_field(self, target: Register, base: Register, layout: np.dtype[Any], name: str) -> None:
        """target = base->name, where `layout` is the numpy record the other side decodes with."""
        offset, size = field(layout, name)
        self.load(target, base, offset, size=size)

    def store_field(self, base: Register, layout: np.dtype[Any], name: str, value: Register | int) -> None:
        """base->name = value"""
        offset, size = field(layout, name)
        self.store(base, offset, value, size=size)

    def load_map(self, target: Register, descriptor: int) -> None:
        """target = the map, as helpers want it."""
        self._wide(target, _MAP_FD, descriptor, 0)

    def load_map_value(self, target: Register, descriptor: int, offset: int = 0) -> None:
        """target = address of a single-entry array's value, without a look-up (since d8eca5bbb2be, v5.2)."""
        self._wide(target, _MAP_VALUE, descriptor, offset)

    def look_up_value(self, target: Register, descriptor: int, *, scratch: int, otherwise: str) -> None:
        """target = address of the first value, of this core's in a per-CPU array; `scratch`: 4 bytes of the stack.

        The verifier wants to see that there is one: else on to the label `otherwise`.
        """
        self.store(R10, scratch, 0, size=4)
        self.load_map(R1, descriptor)
        self.set(R2, R10)
        self.add(R2, scratch)
        self.call(Helper.MAP_LOOKUP_ELEM)
        self.jump_if(R0, "==", 0, otherwise)
        self.set(target, R0)

    def load_constant(self, target: Register, value: int) -> None:
        """target = a 64-bit number."""
        self._wide(target, 0, value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF)

    def jump(self, label: str) -> None:
        self._emit(_JMP, 0, 0, label, 0)

    def jump_if(self, left: Register, relation: str, right: Register | int, label: str) -> None:
        """Jump if `left relation right`; "&" means: have a bit in common. Comparisons are unsigned."""
        code = _JMP | _RELATIONS[relation]
        if isinstance(right, Register):
            self._emit(code | _FROM_REGISTER, left, right, label, 0)
        else:
            self._emit(code, left, 0, label, right)

    def call(self, helper: int) -> None:
        """R0 = helper(R1, ... R5); the arguments are lost."""
        self._emit(_CALL, 0, 0, 0, helper)

    def exit(self) -> None:
        self._emit(_EXIT, 0, 0, 0, 0)

    def assemble(self) -> bytes:
        """The program as the kernel wants it (little-endian machines)."""
        words = bytearray()
        for at, (code, target, source, offset, constant) in enumerate(self._instructions):
            distance = self._labels.get(offset) if isinstance(offset, str) else offset
            if distance is None:
                raise ValueError(f"jump to {offset}, a label that is nowhere")
            if isinstance(offset, str):
                distance -= at + 1
            if not -0x8000 <= distance < 0x8000:
                raise ValueError(f"instruction {at}: offset {distance} does not fit in 16 bits")
            words += struct.pack("<BBhI", code, target | source << 4, distance, constant & 0xFFFFFFFF)
        return bytes(words)

    def _emit(self, code: int, target: int, source: int, offset: int | str, constant: int) -> None:
        if not -0x80000000 <= constant < 0x80000000:
            raise ValueError(f"constant {constant} does not fit in 32 bits")
        self._instructions.append(_Instruction(code, target, source, offset, constant))

    def _arithmetic(self, operation: int, target: Register, value: Register | int) -> None:
        if isinstance(value, Register):
            self._emit(_ALU64 | operation | _FROM_REGISTER, target, value, 0, 0)
        else:
            self._emit(_ALU64 | operation, target, 0, 0, value)

    def _wide(self, target: Register, meaning: int, low: int, high: int) -> None:
        self._instructions.append(_Instruction(_LD_IMM64, target, meaning, 0, low))
        self._instructions.append(_Instruction(0, 0, 0, 0, high))


def field(layout: np.dtype[Any], name: str) -> tuple[int, int]:
    """Offset and size in bytes of a named field of a numpy record."""
    fields = layout.fields
    if fields is None or name not in fields:
        raise ValueError(f"the record has no field {name}")
    kind, offset = fields[name][:2]
    return offset, kind.itemsize
