"""Read BTF, the kernel's own description of its structs, to find the offset of each member on this kernel.

The format: https://docs.kernel.org/bpf/btf.html. A header, then types of differing length, then names. A vmlinux has
some 130,000 types in 5 MB and we ask for sixty members, so only the start of each type is indexed; the rest is read
when asked. The input is not trusted: any file may be given. What does not fit the format raises Unparsable (with the
byte offset in the place of the line), what the kernel does not have raises Unreadable; no input leads to anything else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable, Unreadable

VMLINUX = "/sys/kernel/btf/vmlinux"

_MAGIC = 0xEB9F
_HEADER_BYTES = 24
_LARGEST = 256 << 20  # fifty times a distribution kernel's; keeps a wrong path such as /dev/zero from filling memory
_DEEPEST = 32  # typedefs, qualifiers and array dimensions in a row; the kernel's own MAX_RESOLVE_DEPTH
_POINTER_BYTES = 8  # BTF does not say; the machines we know the system calls of are 64-bit

_INT, _PTR, _ARRAY, _STRUCT, _UNION, _ENUM, _TYPEDEF, _ENUM64 = 1, 2, 3, 4, 5, 6, 8, 19
# typedef, volatile, const, restrict and type tag: another name for a type
_TRANSPARENT = frozenset({_TYPEDEF, 9, 10, 11, 18})

# Words after the three of a type's head, by kind: a fixed number, and one per member. Kinds not listed are unknown.
_FIXED_WORDS = {1: 1, 2: 0, 3: 3, 7: 0, 8: 0, 9: 0, 10: 0, 11: 0, 12: 0, 14: 1, 16: 0, 17: 1, 18: 0}
_MEMBER_WORDS = {4: 3, 5: 3, 6: 2, 13: 2, 15: 3, 19: 3}
_UNKNOWN = 1 << 30  # a step past any end


def _table(words: dict[int, int], otherwise: int) -> npt.NDArray[np.int32]:
    return np.array([words.get(kind, otherwise) for kind in range(128)], dtype=np.int32)


_HEAD_STEP = _table({kind: 3 + _FIXED_WORDS.get(kind, 0) for kind in _FIXED_WORDS | _MEMBER_WORDS}, _UNKNOWN)
_MEMBER_STEP = _table(_MEMBER_WORDS, 0)


class _Head(NamedTuple):
    kind: int
    members: int
    flag: bool
    size_or_type: int
    body: int  # word index of what follows the head


class _Place(NamedTuple):
    type_id: int
    bit: int
    bits: int  # 0: not a bit-field


class Btf:
    """The types of one BTF blob. Paths are dotted and start with a struct: "mem_cgroup.css.cgroup"."""

    def __init__(self, data: bytes, source: str) -> None:
        self.source = source
        if data[:4] == b"\x7fELF":
            raise Unreadable(source, "an ELF file, not raw BTF; take it out with objcopy --dump-section .BTF=FILE")
        if len(data) < _HEADER_BYTES:
            raise Unparsable(source, 0, f"{len(data)} bytes, shorter than a BTF header")
        order = "<" if data[:2] == _MAGIC.to_bytes(2, "little") else ">"
        magic, version, _flags, header, *sections = struct.unpack_from(order + "HBBIIIII", data)
        types_at, types_bytes, names_at, names_bytes = sections
        if magic != _MAGIC:
            raise Unparsable(source, 0, f"magic {magic:#x}, not BTF's {_MAGIC:#x}")
        if version != 1 or header < _HEADER_BYTES:
            raise Unparsable(source, 2, f"BTF version {version} with a header of {header} bytes")
        if max(header + types_at + types_bytes, header + names_at + names_bytes) > len(data):
            raise Unparsable(source, 8, f"sections end beyond the {len(data)} bytes there are")
        self._names = data[header + names_at : header + names_at + names_bytes]
        if self._names[:1] != b"\0" or self._names[-1:] != b"\0":
            raise Unparsable(source, header + names_at, "the names do not begin and end with an empty one")
        if types_bytes % 4:
            raise Unparsable(source, header + types_at, f"{types_bytes} bytes of types, not whole words")
        self._types_at = header + types_at
        raw = np.frombuffer(data, dtype=order + "u4", count=types_bytes // 4, offset=self._types_at)
        self._array: npt.NDArray[np.uint32] = raw.astype(np.uint32)
        self._words = self._array.data
        self._starts = self._index()
        self._type_names = self._array[self._starts]
        self._type_ids: dict[str, int | None] = {}

    @classmethod
    def load(cls, path: str | None = None) -> Btf:
        """The BTF in a file; by default the running kernel's."""
        source = path or VMLINUX
        try:
            with open(source, "rb") as file:
                data = file.read(_LARGEST + 1)
        except FileNotFoundError:
            cure = "needs a kernel with CONFIG_DEBUG_INFO_BTF=y, or a BTF file for it (BTFHub has many)"
            raise Unreadable(source, f"absent; {cure}") from None
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise Unreadable(source, str(getattr(error, "strerror", None) or error)) from None
        if len(data) > _LARGEST:
            raise Unreadable(source, f"larger than {_LARGEST >> 20} MB, which no kernel's BTF is")
        return cls(data, source)

    def offset(self, *paths: str) -> int:
        """Bytes from the struct's start to the member: the first of `paths` this kernel has (newest name first)."""
        for path in paths:
            place = self._find(path)
            if place is not None:
                if place.bits or place.bit % 8:
                    raise Unreadable(self.source, f"{path} is a bit-field, which has no byte offset")
                return place.bit // 8
        raise self._missing(" or ".join(paths))

    def bits(self, path: str) -> tuple[int, int]:
        """First bit and number of bits of a member, bit-field or not."""
        place = self._wanted(path)
        return place.bit, place.bits or 8 * self._size(place.type_id)

    def size(self, path: str) -> int:
        """Bytes of a struct, or of a member."""
        return self._size(self._wanted(path).type_id)

    def length(self, path: str) -> int:
        """Elements of an array member, all dimensions together (pahole flattens some arrays of arrays, not all)."""
        _element, count = self._element(self._wanted(path).type_id)
        return count

    def has(self, path: str) -> bool:
        """Whether this kernel has that struct, or that member: test features, never versions."""
        return self._find(path) is not None

    def enumerator(self, name: str) -> int:
        """The value of an enumerator, whichever enum it belongs to."""
        value = self._enumerator(name)
        if value is None:
            raise self._missing(f"enumerator {name}")
        return value

    def has_enumerator(self, name: str) -> bool:
        """Whether any enum of this kernel has that name."""
        return self._enumerator(name) is not None

    def _missing(self, what: str) -> Unreadable:
        return Unreadable(self.source, f"this kernel has no {what}")

    def _bad(self, word: int, text: str) -> Unparsable:
        return Unparsable(self.source, self._types_at + 4 * word, text)

    # Each type is as long as its head says, so the starts must be found one after the other. But the length *if a
    # type began here* can be computed for all words at once; then finding the starts is a plain loop of additions:
    # 50 ms for 126,000 types, where unpacking every head took 90.
    def _index(self) -> npt.NDArray[np.int64]:
        words = len(self._array)
        steps = np.full(words, _UNKNOWN, dtype=np.int32)
        if words > 2:
            # 16 bits count the members and 5 give the kind. The bits above each are zero so far: reading them too is
            # right today, and rejects (unknown kind, beyond the end) any future meaning.
            info = self._array[1:-1]
            kind = info >> 24 & 0x7F
            steps[: words - 2] = _HEAD_STEP[kind] + _MEMBER_STEP[kind] * (info & 0xFFFFFF).astype(np.int32)
        step_at = steps.data
        starts: list[int] = []
        at = 0
        while at < words:
            starts.append(at)
            at += step_at[at]
        if at != words:
            raise self._bad(starts[-1], f"type {len(starts)} is of unknown kind or ends beyond the types")
        return np.array(starts, dtype=np.int64)

    def _head(self, type_id: int) -> _Head:
        if not 0 < type_id <= len(self._starts):
            raise self._bad(0, f"type {type_id} of {len(self._starts)}")
        at = int(self._starts[type_id - 1])
        info = self._words[at + 1]
        return _Head(info >> 24 & 0x7F, info & 0xFFFFFF, info >> 31 == 1, self._words[at + 2], at + 3)

    def _plain(self, type_id: int) -> int:
        for _ in range(_DEEPEST):
            head = self._head(type_id)
            if head.kind not in _TRANSPARENT:
                return type_id
            type_id = head.size_or_type
        raise self._bad(0, f"type {type_id} names itself, or {_DEEPEST} others in a row")

    def _element(self, type_id: int) -> tuple[int, int]:
        count = 1
        for _ in range(_DEEPEST):
            type_id = self._plain(type_id)
            head = self._head(type_id)
            if head.kind != _ARRAY:
                return type_id, count
            type_id = self._words[head.body]
            count *= self._words[head.body + 2]
        raise self._bad(0, f"type {type_id} is an array of itself, or of {_DEEPEST} dimensions")

    def _size(self, type_id: int) -> int:
        element, count = self._element(type_id)
        head = self._head(element)
        return count * (_POINTER_BYTES if head.kind == _PTR else head.size_or_type)

    def _offsets_of(self, name: str) -> Iterator[int]:
        wanted = b"\0" + name.encode("utf-8", "surrogateescape") + b"\0"
        at = self._names.find(wanted) if name else -1
        while at >= 0:
            yield at + 1
            at = self._names.find(wanted, at + 1)

    def _type_id(self, name: str) -> int | None:
        if name not in self._type_ids:
            self._type_ids[name] = None
            for offset in self._offsets_of(name):
                ids = np.flatnonzero(self._type_names == offset) + 1
                structs = [type_id for type_id in ids.tolist() if self._head(type_id).kind in (_STRUCT, _UNION)]
                typedefs = [type_id for type_id in ids.tolist() if self._head(type_id).kind == _TYPEDEF]
                if structs or typedefs:
                    self._type_ids[name] = (structs or typedefs)[0]
                    break
        return self._type_ids[name]

    def _find(self, path: str) -> _Place | None:
        struct_name, *members = path.split(".")
        type_id = self._type_id(struct_name)
        place = None if type_id is None else _Place(type_id, 0, 0)
        for member in members:
            inner = place and self._member(place.type_id, member)
            place = _Place(inner.type_id, place.bit + inner.bit, inner.bits) if place and inner else None
        return place

    def _wanted(self, path: str) -> _Place:
        place = self._find(path)
        if place is None:
            raise self._missing(path)
        return place

    # Searches members without a name too, as C does. Each type is searched once, so a struct that claims to hold
    # itself, or a million copies of another, costs no more than its own length.
    def _member(self, type_id: int, name: str) -> _Place | None:
        wanted = name.encode("utf-8", "surrogateescape") + b"\0"
        pending, entered = [(self._plain(type_id), 0)], set()
        while pending:
            owner, base = pending.pop()
            head = self._head(owner)
            if owner in entered or head.kind not in (_STRUCT, _UNION):
                continue
            entered.add(owner)
            for at in range(head.body, head.body + 3 * head.members, 3):
                called = self._words[at]
                if called and self._names.startswith(wanted, called):
                    bit, bits = self._bit_place(head, at)
                    return _Place(self._words[at + 1], base + bit, bits)
                if called == 0 and self._words[at + 1]:
                    pending.append((self._plain(self._words[at + 1]), base + self._bit_place(head, at)[0]))
        return None

    # Two ways to say "bit-field": in the member's offset where the struct's flag is set (since 9d5f9f701b18, v5.0),
    # before that in the integer type, whose width then differs from its size.
    def _bit_place(self, owner: _Head, at: int) -> tuple[int, int]:
        offset = self._words[at + 2]
        if owner.flag:
            return offset & 0xFFFFFF, offset >> 24
        type_id = self._words[at + 1]
        head = self._head(self._plain(type_id)) if type_id else None
        if head is not None and head.kind == _INT:
            encoding = self._words[head.body]
            width, shift = encoding & 0xFF, encoding >> 16 & 0xFF
            if width != 8 * head.size_or_type:
                return offset + shift, width
        return offset, 0

    # Any word may look like the wanted name; it is an enumerator only if it is in an enum, where names are.
    def _enumerator(self, name: str) -> int | None:
        for offset in self._offsets_of(name):
            for at in np.flatnonzero(self._array == offset).tolist():
                head = self._head(int(np.searchsorted(self._starts, at, side="right")))
                into = at - head.body
                if into >= 0 and head.kind == _ENUM and into % 2 == 0:
                    value = self._words[at + 1]
                    return value - (1 << 32) if head.flag and value >> 31 else value
                if into >= 0 and head.kind == _ENUM64 and into % 3 == 0:
                    value = self._words[at + 1] | self._words[at + 2] << 32
                    return value - (1 << 64) if head.flag and value >> 63 else value
        return None
