"""The two records shared by the walk's eBPF program and the Python that runs it: one description for both sides."""

from __future__ import annotations

import numpy as np

from zombiescope.kernel.memcg_offsets import LRU_LISTS

MORE, DONE, STALE, BROKEN = 0, 1, 2, 3  # how a batch ended

NAME_BYTES = 256  # NAME_MAX and its NUL

STATE = np.dtype(
    [
        ("cursor", "u8"),  # the css to continue with; 0: begin at the root
        ("serial", "u8"),  # the cursor's
        ("climbing", "u8"),  # 1: the cursor's subtree is done
        ("root", "u8"),
        ("limit", "u8"),  # visits in this batch
        ("records", "u8"),
        ("status", "u8"),
        (
            "armed",
            "u8",
        ),  # thread whose next system call runs a batch, on kernels where programs cannot be run on demand
        ("started_ns", "u8"),
        ("batch_ns", "u8"),
        ("hierarchy", "u8"),  # 0: version 2
        ("own", "u8"),  # serial of our own css
    ]
)
# The state's array is one page. After the state come a copy of the current css, and room for lists and counters.
STATE_BYTES = 4096
CSS, SCRATCH = 1024, 2048
SCRATCH_BYTES = 1024  # for each of the two

RECORD = np.dtype(
    [
        ("serial", "u8"),
        ("parent", "u8"),
        ("inode", "u8"),
        ("references", "i8"),
        ("memory", "i8"),
        ("memsw", "i8"),
        ("swap", "i8"),
        ("kmem", "i8"),
        ("tcpmem", "i8"),
        ("lru", "i8", (LRU_LISTS,)),
        ("page_flags", "u8"),
        ("file_inode", "u8"),
        ("css_id", "i4"),
        ("flags", "u4"),
        ("level", "i4"),
        ("page", "u4"),  # 1: a page was found, and these are known
        ("mapping_bits", "u4"),
        ("mapcount", "i4"),
        ("file_generation", "u4"),
        ("file_links", "u4"),
        ("file_device", "u4"),
        ("unused", "u4"),
        ("name", f"S{NAME_BYTES}"),
        ("file_name", f"S{NAME_BYTES}"),
        ("file_directory", f"S{NAME_BYTES}"),
    ]
)
