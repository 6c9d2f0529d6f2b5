"""Damage perf.data in every way that comes to mind and see that the reader shows what is left, or says Unparsable.

python -m tests.profile.fuzz_perf_data 200000 [seed]
"""

from __future__ import annotations

import io
import random
import resource
import struct
import sys
import time

from tests.profile.perf_data_file import IDENTIFIER, PLAIN, PerfData, attr, build_id_fact, one_of_everything, text_fact

from zombiescope.core.errors import Unparsable
from zombiescope.profile import perf_data
from zombiescope.profile.heatmap import heatmap
from zombiescope.profile.kallsyms import KallsymsText
from zombiescope.profile.symbols import Symbols
from zombiescope.profile.tree import planted

SLOWEST_SECONDS = 2.0  # a file of a kilobyte takes 2 ms; this leaves room for a machine that does other things
MOST_MEMORY = 200 << 20  # bytes more than at the beginning
KALLSYMS = KallsymsText(b"ffffffff81000000 T _text\nffffffff81000300 T do_idle\nffffffff81000400 T _etext\n")


def seeds() -> list[bytes]:
    """Files of all kinds: with facts and without, from a pipe, of two events, packed."""
    import pyarrow as pa

    made = one_of_everything()
    facts = {2: build_id_fact(b"/bin/first", b"1" * 20), 3: text_fact(b"node"), 4: text_fact(b"6.1")}
    two = PerfData(PLAIN | IDENTIFIER)
    for at in range(20):
        two.sample(at, (1 << 64) - 128, 0xFFFFFFFF81000110, event=at % 3)
    events = [(attr(sample_type=two.sample_type), [0]), (attr(2, 7, sample_type=two.sample_type), [1, 2])]
    packed = PerfData(made.sample_type)
    sink = io.BytesIO()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), "zstd") as stream:
        stream.write(made.data())
        stream.flush()
        whole = sink.getvalue()  # before the frame is ended: perf never does that
    for part in (whole[:100], whole[100:]):
        packed.records.append(struct.pack("<IHH", 81, 0, 8 + len(part)) + part)
    return [
        made.file(),
        made.file(features=facts),
        made.piped(),
        two.file(events),
        packed.file(features={27: bytes(20)}),
    ]


def ask_everything(data: bytes) -> bool:
    """Ask all there is to ask; True if it was read. Any other exception than ours is a bug."""
    try:
        found = perf_data.capture(
            lambda at, size: data[at : at + size], len(data), lambda *_: KALLSYMS, lambda kernel: Symbols(kernel)
        )
    except Unparsable:
        return False
    assert len(found.frames) == len(found.idle)
    assert planted(found).flame().all == int(found.busy.sum())
    assert (found.at[1:] >= found.at[:-1]).all()
    if found.end - found.start < 1 << 40:
        assert int(heatmap(found, 1 << 20).sum()) == int(found.busy.sum())
    return len(found) > 0


def damaged(data: bytes, random_: random.Random) -> bytes:
    """One to eight changes: bits, words, cuts, repeats; every other time only words in place, to get further in."""
    changed = bytearray(data)
    in_place = random_.randrange(2) == 0
    for _ in range(random_.randint(1, 8)):
        at = random_.randrange(len(changed)) if changed else 0
        match 2 if in_place else random_.randrange(6):
            case 0 if changed:
                changed[at] ^= 1 << random_.randrange(8)
            case 1 if changed:
                changed[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
            case 2:
                word = random_.choice(
                    (
                        0,
                        1,
                        9,
                        10,
                        1 << 62,
                        (1 << 64) - 1,
                        (1 << 64) - 512,
                        random_.randrange(200),
                        random_.getrandbits(64),
                    )
                )
                size = random_.choice((1, 2, 4, 8))
                changed[at & -size : (at & -size) + size] = (word & (1 << 8 * size) - 1).to_bytes(size, "little")
            case 3:
                del changed[at:]
            case 4:
                del changed[at : at + 8 * random_.randrange(1, 8)]
            case _:
                changed[at:at] = changed[at : at + 8 * random_.randrange(1, 20)]
    return bytes(changed)


def fuzz(times: int, seed: int) -> int:
    """How many of the damaged files still had samples."""
    random_ = random.Random(seed)
    files = seeds()
    for data in files:
        assert ask_everything(data)
    before, read = _memory(), 0
    for number in range(times):
        data = damaged(random_.choice(files), random_)
        started = time.process_time()
        try:
            read += ask_everything(data)
        except BaseException:
            sys.stderr.write(f"seed {seed}, mutation {number}: {data.hex()}\n")
            raise
        if time.process_time() - started > SLOWEST_SECONDS or _memory() - before > MOST_MEMORY:
            raise AssertionError(f"seed {seed}, mutation {number} took too long, or too much memory: {data.hex()}")
    return read


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.perf_counter()
    still_read = fuzz(wanted, chosen)
    sys.stdout.write(f"{wanted} damaged files, {still_read} still read, {time.perf_counter() - began:.1f} s, no bug\n")
