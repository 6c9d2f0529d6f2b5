"""Damage BTF in every way that comes to mind and see that the reader only ever says Unparsable or Unreadable.

python -m tests.kernel.fuzz_btf 100000 [seed]
"""

from __future__ import annotations

import random
import struct

from tests import fuzzing

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.btf import Btf


class Blob:
    """BTF written by hand, a type at a time, from the format's document and not with the reader's tables."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.names = b"\0"
        self.types = b""
        self.count = 0

    def name(self, text: str) -> int:
        if not text:
            return 0
        at = len(self.names)
        self.names += text.encode() + b"\0"
        return at

    def words(self, *values: int) -> bytes:
        return struct.pack(f"{self.order}{len(values)}I", *(value & 0xFFFFFFFF for value in values))

    def add(self, kind: int, name: str, size_or_type: int, *body: int, members: int = 0, flag: bool = False) -> int:
        self.types += self.words(self.name(name), flag << 31 | kind << 24 | members, size_or_type, *body)
        self.count += 1
        return self.count

    def struct(self, name: str, size: int, *members: tuple[str, int, int], flag: bool = False, kind: int = 4) -> int:
        body = [word for member, type_id, bit in members for word in (self.name(member), type_id, bit)]
        return self.add(kind, name, size, *body, members=len(members), flag=flag)

    def bytes(self) -> bytes:
        head = struct.pack(self.order + "HBB", 0xEB9F, 1, 0)
        sections = self.words(24, 0, len(self.types), len(self.types), len(self.names))
        return head + sections + self.types + self.names


def every_kind(order: str = "<") -> bytes:
    """A blob with all nineteen kinds, nested, anonymous and bit-field members; test_btf.py knows what is in it."""
    blob = Blob(order)
    number = blob.add(1, "int", 4, 0x0100_0020)
    pointer = blob.add(2, "", number)
    array = blob.add(3, "", 0, number, number, 7)
    grid = blob.add(3, "", 0, array, number, 3)
    inner = blob.struct("", 8, ("first", number, 0), ("second", number, 32))
    choice = blob.struct("", 8, ("", inner, 0), ("whole", pointer, 0), kind=5)
    alias = blob.add(8, "choice_t", blob.add(10, "", choice))
    narrow = blob.add(1, "old_bits", 4, 0x0002_0003)
    blob.struct("outer", 200, ("head", number, 0), ("", alias, 64), ("grid", grid, 128), ("next", pointer, 1024))
    blob.struct("fields", 8, ("plain", number, 0), ("three", number, 3 << 24 | 37), flag=True)
    blob.struct("old_fields", 8, ("narrow", narrow, 32))
    colours = (blob.name("RED"), 0, blob.name("BELOW_ZERO"), -5)
    blob.add(6, "colour", 4, *colours, members=2, flag=True)
    blob.add(19, "large", 8, blob.name("HUGE"), 1, 2, members=1)
    prototype = blob.add(13, "", number, blob.name("argument"), number, members=1)
    blob.add(12, "function", prototype)
    variable = blob.add(14, "variable", number, 1)
    blob.add(15, ".data", 4, variable, 0, 4, members=1)
    for kind in (7, 9, 11, 16, 18):
        blob.add(kind, f"kind{kind}", number)
    blob.add(17, "tag", number, -1)
    return blob.bytes()


def ask_everything(data: bytes) -> bool:
    """Ask all there is to ask; True if the blob was read. Any other exception than our two is a bug."""
    try:
        btf = Btf(data, "fuzz")
    except (Unparsable, Unreadable):
        return False
    for path in (
        "outer.second",
        "outer.grid",
        "outer.head.nothing",
        "fields.three",
        "old_fields.narrow",
        "choice_t.whole",
    ):
        for question in (btf.offset, btf.bits, btf.size, btf.length, btf.has):
            try:
                question(path)
            except (Unparsable, Unreadable):
                continue
    for name in ("RED", "HUGE", "absent"):
        try:
            btf.enumerator(name)
        except (Unparsable, Unreadable):
            continue
    return True


def word(changed: bytearray, at: int, random_: random.Random) -> None:
    value = random_.choice((0, 1, 5, 0x7FFFFFFF, 0xFFFFFFFF, random_.randrange(40), random_.randrange(1 << 32)))
    changed[at & ~3 : (at & ~3) + 4] = value.to_bytes(4, random_.choice(("little", "big")))


def fuzz(times: int, seed: int) -> int:
    """How many of the damaged blobs could still be read."""
    return fuzzing.tried(
        times,
        seed,
        (every_kind("<"), every_kind(">")),
        lambda blob, random_: fuzzing.damaged(blob, random_, word, skip=24, in_place=True),
        lambda _, data, __: ask_everything(data),
    )


if __name__ == "__main__":
    fuzzing.main(fuzz)
