"""User stacks from `perf record --call-graph dwarf`: each sample has the registers and a copy of the top of the stack.

From the innermost function outwards: the file's tables say where the caller's registers are (unwind_tables); what is
beyond the copy, or in a file that is not here, cuts the stack, and it is counted. A caller is shown by the byte before
the return address, which may be of another function, as perf does. Code without tables (of a just-in-time compiler, of
Go) is taken to keep frame pointers, as perf does; an address that is not in a program then ends the stack.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable

import numpy as np

from zombiescope.core.errors import Unreadable
from zombiescope.core.samples import Ints
from zombiescope.naming.contents import Contents
from zombiescope.profile import unwind_program as program
from zombiescope.profile.perf_data_branches import behind_branches
from zombiescope.profile.perf_data_chains import USER_MARK
from zombiescope.profile.perf_data_header import Event
from zombiescope.profile.perf_data_mappings import Atlas, File
from zombiescope.profile.perf_data_records import Places, Words
from zombiescope.profile.unwind_program import RETURN, Rules
from zombiescope.profile.unwind_tables import Tables

OpenFile = Callable[[str, str], Contents | None]  # by path and build-id
MOST_FRAMES = 127  # as perf's own limit, kernel.perf_event_max_stack
_64_BIT = 2  # PERF_SAMPLE_REGS_ABI_64
# DWARF's number of each register by perf's: ax bx cx dx si di bp sp ip, flags and segments, r8 to r15.
_DWARF = dict(
    zip((0, 1, 2, 3, 4, 5, 6, 7, 8, *range(16, 24)), (0, 3, 2, 1, 4, 5, 6, 7, 16, *range(8, 16)), strict=True)
)
_SP, _BP = 7, 6
_MOST_FILES = 256  # open at a time
_MOST_PAGES = 1 << 18
_WORD = struct.Struct("<Q")
_FARTHEST = 0x4000  # bytes from one frame to the next, where it is a guess: libunwind's limit
_SAVED: dict[int, program.Rule] = {RETURN: (program.AT_OFFSET, -8), _BP: (program.AT_OFFSET, -16)}
_OUTERMOST: program.Rule = (program.UNDEFINED, 0)  # what _start says of its return address
_BY_BASE_POINTER = Rules(_BP, 16, b"", _SAVED, signal=False, quick=(False, 16, -8, -16))
_NO_FILE = ("//anon", "[", "/memfd:", "/dev/zero", "/SYSV", "anon_inode:", "/anon_hugepage")


class Unwinder:
    """Stacks of all samples of a file, once it is known what was mapped where."""

    def __init__(self, atlas: Atlas, spaces_of: Callable[[Ints, Ints], Ints], open_file: OpenFile) -> None:
        self._atlas, self._spaces_of, self._open = atlas, spaces_of, open_file
        self._tables: OrderedDict[int, tuple[Tables, Contents] | None] = OrderedDict()
        self._pages: dict[tuple[int, int], tuple[Tables | None, int, str | None]] = {}
        self.cut: Counter[str] = Counter()  # stacks by the file that was missing
        self.foreign = 0  # samples of 32-bit processes

    def extended(
        self, words: Words, ends: Places, chain_at: Places, event: Event, who: tuple[Ints, Ints]
    ) -> tuple[Words, Places]:
        """Chains in a row, each with its length in a word before it; and where these lengths are."""
        spaces = self._spaces_of(*who).tolist()
        at = behind_branches(words, ends, chain_at, event).tolist()
        bits = [bit for bit in range(64) if event.registers >> bit & 1]
        raw = words.data.cast("B")
        parts, heads, size = list[Words](), list[int](), 0
        for row, (begin, end) in enumerate(zip(at, ends.tolist(), strict=True)):
            first = int(chain_at[row])
            kept = words[first + 1 : first + 1 + int(words[first])]
            own = self._user(words, raw, begin, end, bits, spaces[row])
            marked = [USER_MARK, *own] if own else []
            heads.append(size)
            parts += [np.array([len(kept) + len(marked)], np.uint64), kept, np.array(marked, np.uint64)]
            size += 1 + len(kept) + len(marked)
        return np.concatenate([np.empty(0, np.uint64), *parts]), np.array(heads, np.int64)

    def close(self) -> None:
        for opened in self._tables.values():
            if opened is not None:
                opened[1].close()
        self._tables.clear()

    def _user(self, words: Words, raw: memoryview, at: int, end: int, bits: list[int], space: int) -> list[int]:
        """The addresses of a sample's user stack, innermost first."""
        if at + 2 > end or not int(words[at]):
            return []  # a thread of the kernel
        if int(words[at]) != _64_BIT:
            self.foreign += 1
            return []
        if at + 2 + len(bits) > end:
            return []
        told = words[at + 1 : at + 1 + len(bits)].tolist()
        registers = {_DWARF[bit]: number for bit, number in zip(bits, told, strict=True) if bit in _DWARF}
        if not {_SP, RETURN} <= registers.keys():
            return []
        at += 1 + len(bits)
        size = int(words[at])
        if size % 8 or at + 2 + size // 8 > end:
            return [registers[RETURN]]
        used = int(words[at + 1 + size // 8]) if size else 0
        return self._walked(registers, raw[8 * at + 8 : 8 * at + 8 + min(size, used)], space)

    def _walked(self, registers: dict[int, int], stack: memoryview, space: int) -> list[int]:
        """Callers, innermost first. Nearly always base and stack pointer are all that is needed."""
        address, sp, bp = registers[RETURN], registers[_SP], registers.get(_BP, 0)
        found, base, last = [address], sp, len(stack) - 8
        while len(found) < MOST_FRAMES:
            rules = self._rules(space, address)
            if rules is None:
                break
            if rules.quick is None:
                if rules.saved.get(RETURN) == _OUTERMOST:
                    break
                return self._carefully(registers, stack, space)
            by_stack, offset, returns, saved = rules.quick
            frame = (sp if by_stack else bp) + offset
            at = frame + returns - base
            if frame <= sp or not 0 <= at <= last:
                break
            (address,) = _WORD.unpack_from(stack, at)
            if saved is not None:
                at = frame + saved - base
                bp = _WORD.unpack_from(stack, at)[0] if 0 <= at <= last else 0
            before, sp = sp, frame
            if not address or (rules is _BY_BASE_POINTER and not self._likely(space, address, frame - before)):
                break
            address -= 1
            found.append(address)
        return found

    def _carefully(self, registers: dict[int, int], stack: memoryview, space: int) -> list[int]:
        """The same with all registers and expressions, as a few functions need it."""
        base, last = registers[_SP], len(stack) - 8

        def memory(address: int) -> int | None:
            return int(_WORD.unpack_from(stack, address - base)[0]) if 0 <= address - base <= last else None

        found, address = [registers[RETURN]], registers[RETURN]
        while len(found) < MOST_FRAMES:
            rules = self._rules(space, address)
            before = registers[_SP]
            registers = _caller(rules, registers, memory) if rules else {}
            address = registers.get(RETURN, 0)
            if not address or registers[_SP] <= before:
                break
            if rules is _BY_BASE_POINTER and not self._likely(space, address, registers[_SP] - before):
                break
            address -= 0 if rules is not None and rules.signal else 1
            found.append(address)
        return found

    def _likely(self, space: int, address: int, distance: int) -> bool:
        """Whether a caller that was guessed may be one: its frame is near, and it is in a program."""
        return distance <= _FARTHEST and self._mapped(space, address)[2] != ""

    def _rules(self, space: int, address: int) -> Rules | None:
        """The rules for an address of a process; if the file that has them is missing, that is counted."""
        tables, shift, missing = self._mapped(space, address)
        if tables is None:
            if missing:
                self.cut[missing] += 1
            return _BY_BASE_POINTER if missing is None else None
        at = address + shift
        return (tables.known[at] if at in tables.known else tables.rules(at)) or _BY_BASE_POINTER

    def _mapped(self, space: int, address: int) -> tuple[Tables | None, int, str | None]:
        """What is mapped at an address, remembered by page."""
        key = (space, address >> self._atlas.grain)
        page = self._pages.get(key)
        if page is None:
            if len(self._pages) > _MOST_PAGES:
                self._pages.clear()
            page = self._pages[key] = self._page(space, address)
        return page

    def _page(self, space: int, address: int) -> tuple[Tables | None, int, str | None]:
        """The tables of what is mapped at a page, None if there are none; what to add to an address for them; and the
        file that is missing, "" if nothing is mapped there, None if all is well."""
        if space < 0:
            return None, 0, ""
        files, offsets = self._atlas.find(np.array([space]), np.array([address], np.uint64))
        if files[0] < 0:
            return None, 0, ""
        path = self._atlas.files[int(files[0])].path
        opened = self._opened(int(files[0]))
        if opened is None:
            return None, 0, None if path.startswith(_NO_FILE) else path
        at = opened[0].address(int(offsets[0]))
        return (None, 0, None) if at is None else (opened[0], at - address, None)

    def _opened(self, file: int) -> tuple[Tables, Contents] | None:
        if file not in self._tables:
            told = self._atlas.files[file]
            try:
                contents = self._open(told.path, told.build_id)
            except Unreadable:
                contents = None
            self._tables[file] = _read(told, contents) if contents is not None else None
            if len(self._tables) > _MOST_FILES:
                _, oldest = self._tables.popitem(last=False)
                self._pages.clear()
                if oldest is not None:
                    oldest[1].close()
        return self._tables[file]


def _read(file: File, contents: Contents) -> tuple[Tables, Contents] | None:
    """The tables of a file, if it is the build that was mapped: those of another would lead anywhere."""
    tables = Tables(contents, file.path)
    # perf pads shorter build-ids with zeros.
    if file.build_id and tables.build_id.rstrip("0") != file.build_id.lower().rstrip("0"):
        contents.close()
        return None
    return tables, contents


def _caller(rules: Rules, registers: dict[int, int], memory: Callable[[int], int | None]) -> dict[int, int]:
    """The caller's registers, as far as they are known; without a return address it is the outermost function."""
    if rules.expression:
        frame = program.value(rules.expression, registers, memory, None)
    else:
        frame = registers[rules.register] + rules.offset if rules.register in registers else None
    if frame is None:
        return {}
    found = {number: it for number, it in registers.items() if number in (3, _BP, 12, 13, 14, 15)}
    for number, (kind, told) in rules.saved.items():
        known: int | None = None
        if isinstance(told, bytes):
            known = program.value(told, registers, memory, frame)
            known = memory(known) if known is not None and kind == program.AT_EXPRESSION else known
        elif kind == program.AT_OFFSET:
            known = memory(frame + told)
        elif kind == program.IS_OFFSET:
            known = frame + told
        elif kind == program.IN_REGISTER:
            known = registers.get(told)
        found.pop(number, None)
        if known is not None:
            found[number] = known
    found.setdefault(_SP, frame)
    return found
