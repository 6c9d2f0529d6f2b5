"""The columns of the Arrow files in a recording. What must not import pyarrow imports layout.py alone."""

from __future__ import annotations

import pyarrow as pa

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
WHOLE = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)  # each thread would take memory of its own
HEAD = pa.ipc.IpcWriteOptions()
