"""What the capture process sets for itself: how many files it may open, how memory is kept, how exactly it is woken.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

import ctypes
import gc
import re
import resource
from contextlib import suppress

FILES = 8192  # that it may open
# It may be woken that much later, with a timer that fires anyway: samples of a core come every 10 or 20 ms. It costs no
# accuracy: when something was read is noted after it.
SLACK_NS = 8_000_000
LARGE = 1 << 17  # bytes: what rings held in a second is mapped and given back; the heap would keep the most of it
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3  # of malloc.h
_PR_SET_TIMERSLACK = 29  # of prctl.h
_MADV_DONTNEED = 4  # of mman.h
# 7f05c1a00000-7f05c1c6e000 r-xp 00062000 08:01 393 /usr/lib/libpython3.11.so.1.0
_MAPPINGS = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-xp \S+ \S+ [1-9]\d* +/(?:.*\n(?!Anonymous))+.*\nAnonymous: +(\d+) kB", re.MULTILINE
)


def allow_files() -> None:
    """Two for each core, and those that probes hold open; the usual limit is there for programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def be_lean() -> None:
    libc = ctypes.CDLL(None)
    libc.mallopt(_M_ARENA_MAX, 1)  # a heap for each thread would keep 1 MB more
    libc.mallopt(_M_MMAP_THRESHOLD, LARGE)
    libc.prctl(_PR_SET_TIMERSLACK, SLACK_NS)


def freeze() -> None:
    """What was created at startup stays: the garbage collector need not check it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # what a second creates is freed a second later, without reference cycles
    give_back()


def give_back_text() -> None:
    """Pages of programs that only the start needed, 2 MB: those that are needed again come from the page cache.

    Of executable mappings that are as their file is; one that somebody changed, a debugger or a live patch, is left.
    """
    libc = ctypes.CDLL(None)
    with suppress(OSError, ValueError), open("/proc/self/smaps") as file:
        for mapping in _MAPPINGS.finditer(file.read()):
            begin, end, changed = int(mapping[1], 16), int(mapping[2], 16), int(mapping[3])
            if not changed:
                libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_DONTNEED)


def give_back() -> None:
    """Peaks are short: ask the C library to return the memory."""
    ctypes.CDLL(None).malloc_trim(0)
