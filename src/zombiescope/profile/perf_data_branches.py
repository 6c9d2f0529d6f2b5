"""Chains from the processor's record of branches: `perf record --call-graph lbr`.

The last branch record holds the calls that have not returned, innermost first: where each came from and went to. The
kernel's part of a stack is in the call chain as ever. As perf does (resolve_lbr_callchain_sample in
tools/perf/util/machine.c), behind the mark of the user's part come the target of the innermost call and then where each
call came from; a chain without that mark stays as it is.
"""

from __future__ import annotations

import numpy as np

from zombiescope.profile import perf_data_header as asked
from zombiescope.profile.perf_data_chains import USER_MARK
from zombiescope.profile.perf_data_header import Event
from zombiescope.profile.perf_data_records import Places, Words, spread

_CALL_STACK, _INDEX = 1 << 11, 1 << 17  # of branch_sample_type: calls only; a word more before the entries
_MOST = 1024  # entries: processors have up to 64
_ENTRY = 3  # words: from, to, flags


def has_calls(event: Event) -> bool:
    """Whether samples of an event hold calls that have not returned, and not just any branches."""
    both = asked.BRANCH_STACK | asked.CALLCHAIN
    return event.sample_type & both == both and bool(event.branches & _CALL_STACK)


def behind_chain(words: Words, ends: Places, chain_at: Places, event: Event) -> Places:
    """The word behind the chain and the raw data of each sample, at its end where it is cut short."""
    at = chain_at + 1 + words[chain_at].astype(np.int64)
    if event.sample_type & asked.RAW:
        there = at < ends
        size = words[np.where(there, at, 0)] & np.uint64(0xFFFFFFFF)  # of bytes, in four of its own
        at = at + np.where(there, (size.astype(np.int64) + 11) >> 3, 0)
    return np.minimum(at, ends)


def behind_branches(words: Words, ends: Places, chain_at: Places, event: Event) -> Places:
    """The word behind the branches as well, at the sample's end where it is cut short."""
    at = behind_chain(words, ends, chain_at, event)
    if not event.sample_type & asked.BRANCH_STACK:
        return at
    before = 1 + bool(event.branches & _INDEX)
    there = at + before <= ends
    number = np.where(there, words[np.where(there, at, 0)], np.uint64(0))
    entries = np.minimum(number, np.uint64(_MOST)).astype(np.int64)
    found: Places = np.minimum(at + before + _ENTRY * entries, ends)
    return found


def with_calls(words: Words, ends: Places, chain_at: Places, event: Event) -> tuple[Words, Places]:
    """Chains in a row, each with its length in a word before it; and where these lengths are."""
    at = behind_chain(words, ends, chain_at, event)
    before = 1 + bool(event.branches & _INDEX)
    there = at + before <= ends
    number = np.where(there, words[np.where(there, at, 0)], np.uint64(0))
    entries = np.where(number <= np.uint64(_MOST), number, np.uint64(0)).astype(np.int64)
    first = at + before
    entries[first + _ENTRY * entries > ends] = 0
    kept = _up_to_mark(words, chain_at)
    plain = (entries == 0) | (kept == 0)
    nr = words[chain_at].astype(np.int64)
    kept = np.where(plain, nr, kept)
    entries[plain] = 0
    lengths = kept + entries + (entries > 0)
    starts = np.cumsum(lengths + 1) - lengths
    found: Words = np.zeros(int((lengths + 1).sum()), np.uint64)
    found[starts - 1] = lengths.astype(np.uint64)
    found[spread(starts, kept)] = words[spread(chain_at + 1, kept)]
    calls = np.flatnonzero(entries)
    behind = starts[calls] + kept[calls]
    found[behind] = words[first[calls] + 1]
    each = spread(np.zeros(len(calls), np.int64), entries[calls])
    sources = np.repeat(first[calls], entries[calls]) + _ENTRY * each
    found[spread(behind + 1, entries[calls])] = words[sources]
    return found, starts - 1


def _up_to_mark(words: Words, chain_at: Places) -> Places:
    """How many words of each chain there are up to the mark of the user's part, with it; 0 if it has none."""
    nr = words[chain_at].astype(np.int64)
    chain = np.repeat(np.arange(len(nr)), nr)
    place = spread(np.zeros(len(nr), np.int64), nr)
    marks = np.flatnonzero(words[spread(chain_at + 1, nr)] == np.uint64(USER_MARK))[::-1]  # the first is written last
    found = np.zeros(len(nr), np.int64)
    found[chain[marks]] = place[marks] + 1
    return found
