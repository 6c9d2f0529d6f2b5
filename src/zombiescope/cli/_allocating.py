"""How memory is allocated while a profile is read: what was freed is used again, not given back and asked for anew.

Reading makes arrays of some megabytes, thousands of them one after the other. glibc maps and unmaps each large one, and
the kernel fills every page of it with zeros: a third of the time of `flame --from --to`.
"""

from __future__ import annotations

import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_LARGE = 1 << 30  # bytes: no array is as large as that


def reuse_freed() -> None:
    """For a process that ends soon, before numpy is imported."""
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")  # 2 MB of zeros for the first byte of each
    import ctypes  # which numpy imports, too

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(_MMAP_THRESHOLD, _LARGE)
        mallopt(_TRIM_THRESHOLD, _LARGE)
