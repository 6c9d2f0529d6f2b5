"""The recording on disk: which files there are, and the columns in each. Arrow IPC streams, readable without us.

    DIR/meta.json                  node, kernel, boot, clocks, cores, what each probe gives, format number
    DIR/1741065967/series.arrows   one segment, about two minutes: readings that are numbers
                  /events.arrows   readings that are events: each line of the kernel log
                  /samples.arrows  what ran where and when, by stack
                  /stacks.arrows   the stacks, each once per segment; ids are hashes of their content
                  /*.head.arrows   the same, a small batch per second, while the segment is being written

A finished segment is rewritten and appears under its name at once; the head is then removed. So a reader takes
`X.arrows`, else `X.head.arrows` up to the last complete batch. Times are unix nanoseconds; a finished file says in its
schema which is its first and its last. Versions before 0.2 also wrote DIR/kallsyms, which no reader needs.
"""

from __future__ import annotations

import pyarrow as pa

FORMAT = 1
META, LOCK = "meta.json", "lock"
KINDS = ("series", "events", "samples", "stacks")
FIRST, LAST = b"first_ns", b"last_ns"  # in the schema of a finished file: the times of its first and its last row
CGROUP = "cgroup_id"  # an event that samples need: where they were

_WORD = pa.dictionary(pa.int32(), pa.string())
_READINGS = pa.schema(
    {"at": pa.int64(), "what": _WORD, "subject": _WORD, "value": pa.float64(), "source": _WORD, "text": _WORD}
)
SCHEMAS = {
    "series": _READINGS,
    "events": _READINGS,
    "samples": pa.schema(
        {
            "at": pa.int64(),
            "cpu": pa.uint16(),
            "pid": pa.int32(),
            "tid": pa.int32(),
            "comm": _WORD,
            "cgroup": pa.uint64(),
            "stack": pa.uint64(),
            "weight": pa.int64(),  # nanoseconds that it stands for; null: one period of the rate
        }
    ),
    "stacks": pa.schema(
        {
            "stack": pa.uint64(),
            "frames": pa.list_(pa.string()),  # outermost first, the program's, then the kernel's
            "kernel_frames": pa.uint16(),  # how many of the last are the kernel's
        }
    ),
}
# As versions before 0.2 wrote them.
WITHOUT_WEIGHT = SCHEMAS["samples"].remove(SCHEMAS["samples"].get_field_index("weight"))
# zstd at its default level: two minutes of readings shrink about tenfold. The head's batches are too small for that:
# setting up the compressor for each of some twenty buffers a second cost more than everything else together.
WHOLE = pa.ipc.IpcWriteOptions(compression="zstd")
HEAD = pa.ipc.IpcWriteOptions()


def segment_name(at: float) -> str:
    """A segment is named by the second it began in, so a listing shows which one to open."""
    return f"{int(at):010d}"


def is_segment(name: str) -> bool:
    return len(name) == 10 and name.isdecimal()


def file_name(kind: str, *, head: bool) -> str:
    return f"{kind}.head.arrows" if head else f"{kind}.arrows"
