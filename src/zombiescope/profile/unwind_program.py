"""The programs of call frame information: what they say of one address, and the expressions in them.

DWARF 5, 6.4.2 (call frame instructions) and 2.5 (expressions), as far as compilers for x86-64 write them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from zombiescope.core.errors import Unparsable

RETURN = 16  # the number of the return address among the registers
_MOST_STEPS = 10_000  # instructions for one function
_MOST_DEEP = 64  # states remembered; values on the stack of an expression
_WRAP = (1 << 64) - 1
_SIZES = {0: "<Q", 2: "<H", 3: "<I", 4: "<Q", 10: "<h", 11: "<i", 12: "<q"}
_OMITTED = 0xFF

AT_OFFSET, IS_OFFSET, IN_REGISTER, AT_EXPRESSION, IS_EXPRESSION, UNDEFINED = range(6)
Rule = tuple[int, int | bytes]  # one of these, and an offset, a register or an expression


class Rules(NamedTuple):
    """The frame's address (a register and an offset, or an expression), and where each register was saved."""

    register: int
    offset: int
    expression: bytes
    saved: dict[int, Rule]
    signal: bool  # the caller was interrupted: its address is no return address
    quick: tuple[bool, int, int, int | None] | None = None  # see _quick


class Reader:
    """Numbers of all kinds in a row; reading behind the end raises IndexError or struct.error."""

    def __init__(self, raw: bytes, address: int) -> None:
        self._raw, self._address, self.at = raw, address, 0

    @property
    def address(self) -> int:
        return self._address + self.at

    @property
    def ended(self) -> bool:
        return self.at >= len(self._raw)

    def byte(self) -> int:
        self.at += 1
        return self._raw[self.at - 1]

    def number(self, form: str) -> int:
        (found,) = struct.unpack_from(form, self._raw, self.at)
        self.at += struct.calcsize(form)
        return int(found)

    def unsigned(self) -> int:
        number = shift = 0
        while shift < 70:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
        raise Unparsable("", self.at, "a number that does not end")

    def signed(self) -> int:
        begin = self.at
        number = self.unsigned()
        bits = 7 * (self.at - begin)
        return number - (1 << bits) if number >> bits - 1 else number

    def text(self) -> str:
        end = self._raw.index(b"\0", self.at) if b"\0" in self._raw[self.at :] else len(self._raw)
        found = self._raw[self.at : end].decode("latin-1")
        self.at = end + 1
        return found

    def block(self) -> bytes:
        size = self.unsigned()
        found = self._raw[self.at : self.at + size]
        self.at += size
        return found

    def pointer(self, encoding: int) -> int:
        """A pointer as its encoding says: plain, or counted from where it stands."""
        if encoding == _OMITTED:
            return 0
        here, kind = self.address, encoding & 0x0F
        number = self.unsigned() if kind == 1 else self.signed() if kind == 9 else self.number(_SIZES.get(kind, "<Q"))
        return (number + (here if encoding & 0x70 == 0x10 else 0)) & _WRAP


class _State(NamedTuple):
    register: int
    offset: int
    expression: bytes
    saved: dict[int, Rule]


def run(
    common: Reader, entry: Reader, scale: tuple[int, int, int], start: int, address: int, *, signal: bool
) -> Rules | None:
    """What both programs, the one that all functions share and the function's own, say of an address."""
    first, _ = _ran(common, _State(7, 8, b"", {}), None, scale, 0, 1 << 64)
    found, _ = _ran(entry, first, first, scale, start, address)
    return Rules(found.register, found.offset, found.expression, found.saved, signal, None if signal else _quick(found))


def _quick(state: _State) -> tuple[bool, int, int, int | None] | None:
    """What nearly all functions have: a frame by the stack pointer (else the base pointer) and an offset; from it the
    offsets of the return address, and of the caller's base pointer if it was saved."""
    returns, base = state.saved.get(RETURN), state.saved.get(6)
    plain = not state.expression and state.register in (6, 7) and 7 not in state.saved
    if not plain or returns is None or returns[0] != AT_OFFSET or (base is not None and base[0] != AT_OFFSET):
        return None
    return state.register == 7, state.offset, int(returns[1]), None if base is None else int(base[1])


def _ran(
    program: Reader, state: _State, first: _State | None, scale: tuple[int, int, int], at: int, until: int
) -> tuple[_State, int]:
    """Instructions up to the first that is of a later address."""
    code, data, encoding = scale
    register, offset, expression, saved = state.register, state.offset, state.expression, dict(state.saved)
    kept: list[_State] = []
    for _ in range(_MOST_STEPS):
        if program.ended:
            break
        op = program.byte()
        high, low = op & 0xC0, op & 0x3F
        if high == 0x40 or op in (0x01, 0x02, 0x03, 0x04):
            if op == 0x01:
                at = program.pointer(encoding)
            else:
                at += code * (low if high else program.number({2: "<B", 3: "<H", 4: "<I"}[op]))
            if at > until:
                break
        elif high == 0x80:
            saved[low] = (AT_OFFSET, program.unsigned() * data)
        elif high == 0xC0 or op == 0x06:
            which = low if high else program.unsigned()
            if first is not None and which in first.saved:
                saved[which] = first.saved[which]
            else:
                saved.pop(which, None)
        elif op in (0x05, 0x11):
            which = program.unsigned()
            saved[which] = (AT_OFFSET, (program.unsigned() if op == 0x05 else program.signed()) * data)
        elif op in (0x14, 0x15):
            which = program.unsigned()
            saved[which] = (IS_OFFSET, (program.unsigned() if op == 0x14 else program.signed()) * data)
        elif op == 0x07:
            saved[program.unsigned()] = (UNDEFINED, 0)
        elif op == 0x08:
            saved.pop(program.unsigned(), None)
        elif op == 0x09:
            which = program.unsigned()
            saved[which] = (IN_REGISTER, program.unsigned())
        elif op == 0x0A and len(kept) < _MOST_DEEP:
            kept.append(_State(register, offset, expression, dict(saved)))
        elif op == 0x0B and kept:
            register, offset, expression, saved = kept.pop()
        elif op in (0x0C, 0x12):
            register, expression = program.unsigned(), b""
            offset = program.unsigned() if op == 0x0C else program.signed() * data
        elif op == 0x0D:
            register, expression = program.unsigned(), b""
        elif op in (0x0E, 0x13):
            offset, expression = program.unsigned() if op == 0x0E else program.signed() * data, b""
        elif op == 0x0F:
            expression = program.block()
        elif op in (0x10, 0x16):
            which = program.unsigned()
            saved[which] = (AT_EXPRESSION if op == 0x10 else IS_EXPRESSION, program.block())
        elif op == 0x2E:
            program.unsigned()
        elif op:
            raise Unparsable("", program.at, "an instruction that is not known")
    return _State(register, offset, expression, saved), at


def value(
    expression: bytes, registers: dict[int, int], memory: Callable[[int], int | None], first: int | None
) -> int | None:
    """The value of an expression; None if it needs what is not known."""
    program, stack = Reader(expression, 0), [] if first is None else [first]
    try:
        for _ in range(_MOST_STEPS):
            if program.ended:
                return stack[-1] & _WRAP
            op = program.byte()
            if 0x70 <= op <= 0x8F:
                stack.append(registers[op - 0x70] + program.signed() & _WRAP)
            elif 0x30 <= op <= 0x4F:
                stack.append(op - 0x30)
            elif op == 0x06:
                found = memory(stack.pop())
                if found is None:
                    return None
                stack.append(found)
            elif 0x08 <= op <= 0x0F:
                stack.append(program.number("<" + "BbHhIiQq"[op - 8]) & _WRAP)
            elif op in (0x10, 0x11):
                stack.append((program.unsigned() if op == 0x10 else program.signed()) & _WRAP)
            elif op == 0x12:
                stack.append(stack[-1])
            elif op == 0x23:
                stack.append(stack.pop() + program.unsigned() & _WRAP)
            elif op in _TWO:
                right, left = stack.pop(), stack.pop()
                stack.append(_TWO[op](left, right) & _WRAP)
            else:
                return None
            if len(stack) > _MOST_DEEP:
                return None
    except (IndexError, KeyError, struct.error, Unparsable):
        return None
    return None


def _whole(number: int) -> int:
    """As a signed number."""
    return number - (1 << 64) if number >> 63 else number


_TWO: dict[int, Callable[[int, int], int]] = {
    0x1A: lambda left, right: left & right,
    0x1C: lambda left, right: left - right,
    0x1E: lambda left, right: left * right,
    0x21: lambda left, right: left | right,
    0x22: lambda left, right: left + right,
    0x24: lambda left, right: left << right if right < 64 else 0,
    0x29: lambda left, right: int(left == right),
    0x2A: lambda left, right: int(_whole(left) >= _whole(right)),
    0x2B: lambda left, right: int(_whole(left) > _whole(right)),
    0x2C: lambda left, right: int(_whole(left) <= _whole(right)),
    0x2D: lambda left, right: int(_whole(left) < _whole(right)),
    0x2E: lambda left, right: int(left != right),
}
