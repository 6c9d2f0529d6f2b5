"""Damage BTF in every way that comes to mind and see that the reader only ever says Unparsable or Unreadable.

python tests/kernel/fuzz_btf.py 100000 [seed]
"""

from __future__ import annotations

import random
import struct
import sys
import time

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.btf import Btf

SLOWEST_SECONDS = 2.0  # a blob of a kilobyte takes 0.1 ms; this leaves room for a machine that does other things


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


def damaged(data: bytes, random_: random.Random) -> bytes:
    """One to eight changes: bits, words, cuts, repeats; every other time only words in place, to get further in."""
    changed = bytearray(data)
    in_place = random_.randrange(2) == 0
    for _ in range(random_.randint(1, 8)):
        at = random_.randrange(24 if in_place else 0, len(changed)) if changed else 0
        match 2 if in_place else random_.randrange(6):
            case 0 if changed:
                changed[at] ^= 1 << random_.randrange(8)
            case 1 if changed:
                changed[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
            case 2:
                word = random_.choice(
                    (0, 1, 5, 0x7FFFFFFF, 0xFFFFFFFF, random_.randrange(40), random_.randrange(1 << 32))
                )
                changed[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, random_.choice(("little", "big")))
            case 3:
                del changed[at:]
            case 4:
                del changed[at : at + 4 * random_.randrange(1, 8)]
            case _:
                changed[at:at] = changed[at : at + 12 * random_.randrange(1, 5)]
    return bytes(changed)


def fuzz(times: int, seed: int) -> int:
    """How many of the damaged blobs could still be read."""
    random_ = random.Random(seed)
    seeds = (every_kind("<"), every_kind(">"))
    read = 0
    for number in range(times):
        data = damaged(random_.choice(seeds), random_)
        started = time.perf_counter()
        try:
            read += ask_everything(data)
        except BaseException:
            sys.stderr.write(f"seed {seed}, mutation {number}: {data.hex()}\n")
            raise
        if time.perf_counter() - started > SLOWEST_SECONDS:
            raise AssertionError(f"seed {seed}, mutation {number} took more than {SLOWEST_SECONDS} s: {data.hex()}")
    return read


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.perf_counter()
    still_read = fuzz(wanted, chosen)
    sys.stdout.write(f"{wanted} damaged blobs, {still_read} still read, {time.perf_counter() - began:.1f} s, no bug\n")
