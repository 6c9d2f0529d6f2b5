"""Name kernel addresses from /proc/kallsyms, on the recorded machine or, from a saved copy, on any other.

    ffffffff81000000 T _stext
    ffffffff816b65f0 T __x64_sys_read
    ffffffffc0201000 t ftrace_trampoline	[__builtin__ftrace]

The kernel is loaded at a random address (KASLR), so a recording is worth little without its own kallsyms beside it.
122,000 lines are 5.4 MB of text; names are cut out of it only when asked for.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from zombiescope.core.errors import Unparsable
from zombiescope.naming.demangled import demangled
from zombiescope.naming.ranges import Addresses, Indexes, Ranges, best_aliases, named

UNKNOWN = "[unknown]"

LARGEST = 64 << 20  # ten times a distribution kernel's with all modules; a wrong file does not fill memory
# The text symbol before a gap (_etext, the last function of the last module) would name everything after it, and
# unwinding yields addresses that are in no function. The longest function of a 6.18 kernel is 21 KB.
_LONGEST = 256 << 10
_MAGIC = b"zombiescope kallsyms 1\n"
_HEADER = struct.Struct("<QQQQ")  # symbols, the first address, text base, whether addresses were hidden

# v4.15 (the first with %px) wrote an address of zero as "(null)", padded to the width of the others.
LINE = re.compile(rb"([0-9a-f]{16}|[0-9a-f]{8}| {10}\(null\)| {2}\(null\)) [!-~] [^\x00-\x20]")
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, dtype=np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", dtype=np.uint8)] = np.arange(16)


class Kernel(NamedTuple):
    """Where the kernel's code began, which differs from boot to boot, and which kernel it was."""

    address: int
    build_id: str


class Kallsyms:
    """Kernel functions by address. `zeroed`: addresses are hidden from this user, so there are none."""

    def __init__(
        self, ranges: Ranges, names: bytes, name_at: Indexes, *, text_base: int | None, zeroed: bool = False
    ) -> None:
        """`names` holds a name from each of `name_at` to the next newline; made by parse and load."""
        self._ranges, self._names, self._name_at = ranges, names, name_at
        self.text_base = (
            text_base  # address of _text (or _stext); None if unknown. Relative to it, addresses do not depend on KASLR
        )
        self.zeroed = zeroed  # kptr_restrict is 2, or 1 without CAP_SYSLOG: run as root, or change the sysctl

    @classmethod
    def parse(cls, text: bytes, source: str = "/proc/kallsyms") -> Kallsyms:
        """The text symbols (types t, T, w and W) of a kernel and its modules."""
        if len(text) > LARGEST:
            raise Unparsable(source, 0, f"{len(text)} bytes; no kernel has so many symbols")
        if not text.endswith(b"\n"):
            text += b"\n"
        first = LINE.match(text)
        if not first:
            raise not_understood(source, text, 0, 1)
        width = len(first[1])
        # Before any array is made: a line takes at least "address T x\n", so more lines than that hold a bad one.
        if text.count(b"\n") * (width + 5) > len(text):
            _refuse_short_line(source, text, width + 4)
        chars = np.frombuffer(text, dtype=np.uint8)
        ends: Indexes = np.flatnonzero(chars == ord("\n")).astype(np.int64)
        begins: Indexes = np.append(0, ends[:-1] + 1)
        good = ends - begins >= width + 4
        begins = np.where(good, begins, 0)  # keeps the gathers below inside the text; refused right after them
        good &= (chars[begins + width] == 32) & (chars[begins + width + 2] == 32) & (chars[begins + width + 3] > 32)
        addresses, written = _addresses(text, chars, begins, width)
        good &= written
        if not good.all():
            line = int(np.argmin(good))
            raise not_understood(source, text, int(ends[line - 1]) + 1 if line else 0, line + 1)
        return cls._made(text, chars, addresses, begins, width)

    @classmethod
    def _made(
        cls, text: bytes, chars: npt.NDArray[np.uint8], addresses: Addresses, begins: Indexes, width: int
    ) -> Kallsyms:
        kinds = chars[begins + width + 1]
        functions = np.isin(kinds, np.frombuffer(b"tTwW", dtype=np.uint8))
        zeroed = not addresses.any()
        functions &= addresses > 0
        starts, kinds, name_at = addresses[functions], kinds[functions], begins[functions] + width + 3
        sized = np.ones(len(starts), dtype=bool)  # kallsyms has no sizes
        weak, exported = np.isin(kinds, (ord("w"), ord("W"))), kinds == ord("T")
        kept = best_aliases(starts, sized, weak, exported, chars, name_at)
        starts, name_at = starts[kept], name_at[kept]
        # A function ends where the next symbol of any type begins.
        edges = np.sort(addresses)
        following = np.searchsorted(edges, starts, side="right")
        reach = np.append(edges, np.uint64((1 << 64) - 1))[following] - starts
        ranges = Ranges(starts, np.minimum(reach, np.uint64(_LONGEST)))
        return cls(ranges, text, name_at, text_base=text_base_of(text, width) or None, zeroed=zeroed)

    def __len__(self) -> int:
        return len(self._ranges.starts)

    def name(self, address: int) -> str:
        """The function at an address, "[unknown]" for none."""
        return self.names(np.array([address & (1 << 64) - 1], dtype=np.uint64))[0]

    def names(self, addresses: Addresses) -> list[str]:
        """The function at each address; a module's as "name [module]"."""
        return named(self._ranges.find(addresses.astype(np.uint64, copy=False)), self._name, UNKNOWN)

    def those(self, addresses: Addresses, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """Which addresses are in a function whose name is wanted; each function is checked once."""
        functions = self._ranges.find(addresses)
        there = np.zeros(len(self._name_at) + 1, np.bool_)
        there[functions] = True  # the last is for none
        for function in np.flatnonzero(there[:-1]).tolist():
            there[function] = wanted(self._name(function))
        there[-1] = False
        found: npt.NDArray[np.bool_] = there[functions]
        return found

    def _raw_name(self, index: int) -> bytes:
        at = int(self._name_at[index])
        return self._names[at : self._names.index(b"\n", at)]

    def _name(self, index: int) -> str:
        symbol, _, module = self._raw_name(index).decode("utf-8", "surrogateescape").partition("\t")
        return f"{demangled(symbol)} {module}" if module else demangled(symbol)  # parts of newer kernels are in Rust

    def saved(self) -> bytes:
        """A compact form to keep beside a recording: 5.4 MB of text become 0.6 MB. Equal symbols give equal bytes."""
        ranges = self._ranges
        gaps = np.zeros(len(self), dtype="<u8")
        gaps[:-1] = ranges.starts[1:] - ranges.starts[:-1] - ranges.sizes[:-1]
        first = int(ranges.starts[0]) if len(self) else 0
        names = b"".join(self._raw_name(index) + b"\n" for index in ranges.owners.tolist())
        header = _HEADER.pack(len(self), first, self.text_base or 0, self.zeroed)
        return _MAGIC + zlib.compress(header + ranges.sizes.astype("<u4").tobytes() + gaps.tobytes() + names)

    @classmethod
    def load(cls, data: bytes, source: str = "saved kallsyms") -> Kallsyms:
        """Load what `saved` wrote. Anything else raises Unparsable, with the byte offset in place of the line."""
        raw = _unpacked(data, source)
        if len(raw) < _HEADER.size:
            raise Unparsable(source, 0, f"{len(raw)} bytes, shorter than a header")
        count, first, text_base, zeroed = _HEADER.unpack_from(raw)
        names_at = _HEADER.size + 12 * count
        names = raw[names_at:]
        if names_at > len(raw) or names.count(b"\n") != count or (count and not names.endswith(b"\n")):
            raise Unparsable(source, _HEADER.size, f"{len(raw)} bytes do not hold the {count} symbols announced")
        sizes = np.frombuffer(raw, "<u4", count, _HEADER.size).astype(np.uint64)
        gaps = np.frombuffer(raw, "<u8", count, _HEADER.size + 4 * count).astype(np.uint64)
        starts = np.full(count, first, dtype=np.uint64)
        starts[1:] += np.cumsum(sizes[:-1] + gaps[:-1], dtype=np.uint64)
        ends = starts + sizes
        ends_of_names: Indexes = np.flatnonzero(np.frombuffer(names, dtype=np.uint8) == ord("\n")).astype(np.int64)
        name_at: Indexes = np.append(0, ends_of_names[:-1] + 1) if count else ends_of_names
        # Sums that wrap around show as a start before the last end.
        disordered = (starts[1:] < ends[:-1]).any() or (ends <= starts).any()
        if disordered or (name_at == ends_of_names).any():
            raise Unparsable(source, _HEADER.size, "symbols without a size or a name, or out of order")
        return cls(Ranges(starts, sizes), names, name_at, text_base=text_base or None, zeroed=bool(zeroed))


# Addresses are hexadecimal of one width: all are converted at once; or, where one is odd, a digit of all at a time.
def _addresses(
    text: bytes, chars: npt.NDArray[np.uint8], begins: Indexes, width: int
) -> tuple[Addresses, npt.NDArray[np.bool_]]:
    good = np.ones(len(begins), dtype=bool)
    digits_of_all = sliding_window_view(chars, width)[begins]
    if _DIGITS[digits_of_all].max(initial=0) != _NO_DIGIT:  # as nearly always
        raw = bytes.fromhex(digits_of_all.tobytes().decode("ascii"))
        return np.frombuffer(raw, f">u{width // 2}").astype(np.uint64), good
    addresses = np.zeros(len(begins), dtype=np.uint64)
    for column in range(width):
        digits = _DIGITS[chars[begins + column]]
        good &= digits != _NO_DIGIT
        addresses = addresses << np.uint64(4) | digits.astype(np.uint64)
    for line in np.flatnonzero(~good).tolist():
        at = int(begins[line])
        if text[at : at + width] != b"(null)".rjust(width):
            break
        addresses[line], good[line] = 0, True
    return addresses, good


def text_base_of(text: bytes, width: int) -> int:
    for name in (b" _text\n", b" _stext\n"):
        at = text.find(name)
        begin = text.rfind(b"\n", 0, max(at, 0)) + 1
        if at - begin == width + 2 and b"(" not in text[begin : begin + width]:  # "address T", and not "(null)"
            return int(text[begin : begin + width], 16)
    return 0


def _refuse_short_line(source: str, text: bytes, least: int) -> None:
    at, line = 0, 1
    while at < len(text):
        end = text.index(b"\n", at)
        if end - at < least:
            raise not_understood(source, text, at, line)
        at, line = end + 1, line + 1


def not_understood(source: str, text: bytes, at: int, line: int) -> Unparsable:
    return Unparsable(source, line, text[at : at + 200].split(b"\n")[0].decode("utf-8", "surrogateescape"))


def _unpacked(data: bytes, source: str) -> bytes:
    if not data.startswith(_MAGIC):
        raise Unparsable(source, 0, "not a saved kallsyms, or of a later version")
    unpacking = zlib.decompressobj()
    try:
        raw = unpacking.decompress(data[len(_MAGIC) :], LARGEST)
    except zlib.error as error:
        raise Unparsable(source, len(_MAGIC), str(error)) from None
    if not unpacking.eof or unpacking.unused_data:
        raise Unparsable(source, len(data), f"cut off, followed by something else, or larger than {LARGEST >> 20} MB")
    return raw
