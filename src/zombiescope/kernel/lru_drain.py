"""Move pages touched a moment ago to their LRU lists: until then they wait in a per-core batch.

A thread of ours runs on each core and calls madvise(MADV_COLD) on a bit of its own memory, which empties that core's
batch (`lru_add_drain()` in madvise_cold(), mm/madvise.c, since v5.4). A core on which it does not get to run soon is
skipped: its last pages stay unnamed for now. Nothing else has to wait, unlike with a drain by the kernel's workers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading

PATIENCE = 0.2  # seconds for all cores together: usually 20 µs each
_MADV_COLD = 20


def drain(patience: float = PATIENCE) -> bool:
    """Visit every core we may use; True if all were reached."""
    thread = threading.Thread(target=_visit_all, name="lru_drain", daemon=True)
    thread.start()
    thread.join(patience)
    return not thread.is_alive()


def _visit_all() -> None:
    libc = ctypes.CDLL(None)
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page[0] = 1
    held = ctypes.c_char.from_buffer(page)
    for core in sorted(os.sched_getaffinity(0)):
        try:
            os.sched_setaffinity(0, {core})  # of this thread alone
        except OSError:  # went offline
            continue
        libc.madvise(ctypes.c_void_p(ctypes.addressof(held)), ctypes.c_size_t(mmap.PAGESIZE), _MADV_COLD)
    del held
    page.close()
