"""Damage perf.data in every way that comes to mind and see that the reader shows what is left, or says Unparsable.

python -m tests.profile.fuzz_perf_data 200000 [seed]
"""

from __future__ import annotations

import io
import random
import struct

from tests import fuzzing
from tests.profile.perf_data_file import (
    IDENTIFIER,
    PLAIN,
    PerfData,
    attr,
    build_id_fact,
    event_fact,
    one_of_everything,
    text_fact,
)

from zombiescope.core.errors import Unparsable
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.naming.symbols import Symbols
from zombiescope.profile import perf_data
from zombiescope.profile.heatmap import heatmap
from zombiescope.profile.tree import planted

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
    calls = PerfData(PLAIN | 1 << 11)  # of lbr: from, to and flags of each call behind the chain
    for at in range(12):
        calls.sample(at, (1 << 64) - 128, 0xFFFFFFFF81000110, (1 << 64) - 512, 0x401010, behind=[2, 0, *range(1, 7)])
    for at in range(4):  # BPF programs that come and go
        made.ksymbol(
            at * 300, 0xFFFFFFFF81000100 + 8 * at, 64, b"bpf_prog_%d" % at, gone=at == 2, longer=16 * (at == 1)
        )
    lbr = attr(sample_type=calls.sample_type, branches=1 | 1 << 11 | 1 << 17)
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
        two.file(events, features={12: event_fact(*((raw, b"cycles:ppp", ids) for raw, ids in events))}),
        calls.file([(lbr, [1])]),
        packed.file(features={27: bytes(20)}),
    ]


def ask_everything(data: bytes) -> bool:
    """Ask all there is to ask; True if it was read. Any other exception than ours is a bug."""
    try:
        found, glance = (
            perf_data.capture(
                lambda at, size: data[at : at + size], len(data), lambda *_: KALLSYMS, Symbols, stacks=stacks
            )
            for stacks in (True, False)
        )
    except Unparsable:
        return False
    assert (glance.at == found.at).all() and glance.in_full is not None
    middle = (found.start + found.end) // 2
    part = glance.in_full([(found.start, middle)])
    assert part.at.tolist() == found.at[found.at < middle].tolist()
    assert len(part.frames) == len(part.idle)
    assert len(found.frames) == len(found.idle)
    assert planted(found).flame().all == int(found.weight[found.busy].sum())
    assert (found.at[1:] >= found.at[:-1]).all()
    if found.end - found.start < 1 << 40 and found.unit == "samples":
        assert int(heatmap(found, 1 << 20).sum()) == int(found.busy.sum())
    return len(found) > 0


def word(changed: bytearray, at: int, random_: random.Random) -> None:
    large = (1 << 62, (1 << 64) - 1, (1 << 64) - 512)
    value = random_.choice((0, 1, 9, 10, *large, random_.randrange(200), random_.getrandbits(64)))
    size = random_.choice((1, 2, 4, 8))
    changed[at & -size : (at & -size) + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def fuzz(times: int, seed: int) -> int:
    """How many of the damaged files still had samples."""
    files = seeds()
    for data in files:
        assert ask_everything(data)
    return fuzzing.tried(
        times,
        seed,
        files,
        lambda file, random_: fuzzing.damaged(file, random_, word, in_place=True),
        lambda _, data, __: ask_everything(data),
    )


if __name__ == "__main__":
    fuzzing.main(fuzz)
