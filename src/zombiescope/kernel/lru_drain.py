"""Let pages that were touched a moment ago show on their lists: they wait in a batch of their core's until it is full.

A thread of ours visits each core and asks for a bit of its own memory to be cooled, which empties that core's batch
(`lru_add_drain()` in madvise_cold(), mm/madvise.c, since v5.4). A core that does not let us in soon is left as it is:
its last pages stay unnamed for now. Nobody is made to wait, unlike with a drain of all cores by the kernel's workers.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading

PATIENCE = 0.2  # seconds for all cores together: 20 µs each is usual
_MADV_COLD = 20


def drain(patience: float = PATIENCE) -> bool:
    """Visit every core we may use; True if all let us in."""
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
        except OSError:  # went off line
            continue
        libc.madvise(ctypes.c_void_p(ctypes.addressof(held)), ctypes.c_size_t(mmap.PAGESIZE), _MADV_COLD)
    del held
    page.close()
