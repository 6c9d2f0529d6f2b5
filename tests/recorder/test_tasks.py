"""What rings say of processes, and which of their records are decoded."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate

import numpy as np
from tests.recorder.heads import exited, forked, mapped, named, ran

from zombiescope.kernel.perf_changes import Mmap
from zombiescope.recorder.perf_records import parse
from zombiescope.recorder.tasks import Tasks

CODE = 0x55D000000000


def test_what_was_never_sampled_is_not_decoded_and_changes_nothing() -> None:
    tasks = Tasks()
    brief = [part for pid in range(100, 200) for part in (forked(pid, 1, 0.1), mapped(pid, 0.2, CODE, "/x"))]
    ends = [exited(pid, 0.3) for pid in range(100, 200)]
    kept = [forked(50, 40, 0.1), ran(50, 0.5, CODE), exited(50, 0.6), exited(40, 0.7), forked(40, 1, 0.05)]
    content = b"".join([*brief, *ends, *kept])
    tasks.feed([content])
    needed = tasks.needed(tasks.spans())
    found, starts = needed.of([content])
    assert found == [b"".join(kept)], "the sampled one, and its parent, are needed"
    assert len(parse(found, cgroup=True, starts=starts).records) == 4
    found, starts = needed.of([kept[1], content, b"", brief[0]])
    assert found == [kept[1], b"".join(kept), b"", b""]
    assert starts is not None and starts.tolist() == list(
        accumulate([0, *(len(it) // 8 for it in (kept[1], *kept[:-1]))])
    )
    assert len(parse([content], cgroup=True).records) == 304
    odd = content + b"\xff" * 8
    assert needed.of([odd, content, b"x"]) == ([odd, b"".join(kept), b"x"], None), "damage is left to the parser"


def test_of_a_pid_only_the_program_that_was_sampled_is_decoded() -> None:
    """The same number three times, as on a node that starts hundreds a second; each forks, begins a program, exits."""

    def life(at: float, *runs: bytes) -> list[bytes]:
        named_at, mapped_at = at + 0.2, at + 0.3
        begun = [forked(7, 1, at), named(7, named_at, "x", execed=True), mapped(7, mapped_at, CODE, "/x")]
        return [*begun, *runs, exited(7, at + 0.9)]

    never, before, after = life(1.0), life(2.0, ran(7, 2.1, CODE)), life(3.0, ran(7, 3.5, CODE))
    content = b"".join([*never, *before, *after])
    tasks = Tasks()
    tasks.feed([content])
    found, _ = tasks.needed(tasks.spans()).of([content])
    fork, exit_of_one, sample = before[0], before[-1], before[3]
    assert found == [b"".join([fork, sample, exit_of_one, *after[1:]])]
    assert tasks.spans().programs(np.array([7, 7, 7, 9], np.uint64), np.array([0, 2, 3, 3], np.uint64))[-1] == 0


def test_what_lives_on_is_needed_with_all_that_it_descends_from() -> None:
    content = b"".join([forked(7, 1, 0.1), mapped(7, 0.2, CODE, "/x"), forked(8, 7, 0.3), exited(7, 0.4)])
    tasks = Tasks()
    tasks.feed([content, ran(5, 0.5, 0x1000)])
    assert tasks.needed(tasks.spans()).of([content])[0] == [content], "its child, which is not sampled yet, has them"


def test_of_a_process_that_is_gone_the_mappings_in_a_sample_are_kept() -> None:
    tasks = Tasks()
    maps = [mapped(pid, 0.2, CODE + at * 0x10000, "/x") for pid in (50, 60, 70) for at in range(4)]
    begun = [forked(50, 1, 0.1), forked(60, 1, 0.1), exited(70, 0.1), forked(70, 1, 0.15)]
    rest = [ran(pid, 0.5, CODE + 0x20000 + 0xFFF) for pid in (50, 60, 70)] + [exited(50, 0.6)]
    content = b"".join([*begun, *maps, *rest])
    tasks.feed([content])
    found = parse(tasks.needed(tasks.spans()).of([content])[0], cgroup=True).records
    left = Counter((it.pid, (it.address - CODE) >> 16) for it in found if isinstance(it, Mmap))
    lives = {(pid, at): 1 for pid in (60, 70) for at in range(4)}
    assert left == {(50, 2): 1, **lives}, "what lives on is sampled in the next head, too"
