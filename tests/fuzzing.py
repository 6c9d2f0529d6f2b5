"""The frame of every fuzzer here: inputs damaged at random, each read within bounds of time and memory."""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

# An input of some kilobytes takes 0.1 to 2 ms; this leaves room for a machine that does other things.
SLOWEST_SECONDS = 2.0
MOST_GROWTH = 200 << 20  # bytes of memory, over the whole run
TEMPTING = (0, 1, 9, 10, 0x20, 0x7F, 0x80, 0xFF)

Seed = TypeVar("Seed")
Change = Callable[[bytearray, int, random.Random], None]


def damaged(data: bytes, random_: random.Random, change: Change, *, skip: int = 0, in_place: bool = False) -> bytes:
    """One to eight changes: bits, bytes, cuts, repeats, and the format's own `change`.

    `in_place`: every other time nothing but `change`, behind the first `skip` bytes, to get further in.
    """
    changed = bytearray(data)
    deep = in_place and random_.randrange(2) == 0
    for _ in range(random_.randint(1, 8)):
        at = random_.randrange(skip if deep else 0, len(changed)) if changed else 0
        match 2 if deep else random_.randrange(6):
            case 0 if changed:
                changed[at] ^= 1 << random_.randrange(8)
            case 1 if changed:
                changed[at] = random_.choice((*TEMPTING, random_.randrange(256)))
            case 2:
                change(changed, at, random_)
            case 3:
                del changed[at:]
            case 4:
                del changed[at : at + random_.choice((random_.randrange(1, 40), 4 * random_.randrange(1, 16)))]
            case _:
                changed[at:at] = changed[
                    at : at + random_.choice((random_.randrange(1, 200), 4 * random_.randrange(1, 40)))
                ]
    return bytes(changed)


def tried(
    times: int,
    seed: int,
    seeds: Sequence[Seed],
    damage: Callable[[Seed, random.Random], bytes],
    read: Callable[[Seed, bytes, random.Random], bool],
) -> int:
    """How many of the damaged inputs could still be read."""
    random_ = random.Random(seed)
    before, still_read = _memory(), 0
    for number in range(times):
        whole = random_.choice(seeds)
        data = damage(whole, random_)
        started = time.process_time()
        try:
            still_read += read(whole, data, random_)
        except BaseException:
            sys.stderr.write(f"seed {seed}, mutation {number}: {data.hex()}\n")
            raise
        if time.process_time() - started > SLOWEST_SECONDS or _memory() - before > MOST_GROWTH:
            raise AssertionError(f"seed {seed}, mutation {number} took too long, or too much memory: {data.hex()}")
    return still_read


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(fuzz: Callable[[int, int], int]) -> None:
    """As a program: how many, and the seed."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.perf_counter()
    still_read = fuzz(wanted, chosen)
    sys.stdout.write(f"{wanted} damaged inputs, {still_read} still read, {time.perf_counter() - began:.1f} s, no bug\n")
