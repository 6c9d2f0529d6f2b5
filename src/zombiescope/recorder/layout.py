"""The recording on disk: which files there are. What is in them: head.py, schemas.py. Standard library only.

    DIR/meta.json                  node, kernel, boot, clocks, cores, what each probe gives, format number
    DIR/carry                      what the next head needs of the last: mappings and names of processes that live on
    DIR/1741065967/head            one segment, five to ten minutes, as it was captured
    DIR/1741065967/series.arrows   the same, settled: readings that are numbers
                  /events.arrows   readings that are events: each line of the kernel log
                  /samples.arrows  what ran where and when, by stack
                  /stacks.arrows   the stacks, each once per segment; ids are hashes of their content

A settled segment has all four files, and its head is removed after the last one appeared under its name: where there is
a head, it is what a reader takes. Format 1, which had no such head, wrote *.head.arrows: a small batch per second while
the segment was being written; there a reader takes `X.arrows`, else `X.head.arrows` up to the last complete batch.
"""

from __future__ import annotations

FORMAT, OLDEST_FORMAT = 2, 1
META, LOCK, CARRY = "meta.json", "lock", "carry"
SEGMENT_SECONDS = 600.0  # at most: to settle a head takes 0.3 s of CPU to start, and memory for all of it
HEAD_FILE = "head"  # of a segment that is being written or waits to be settled; see head.py
FIRST, LAST = b"first_ns", b"last_ns"  # in the schema of a finished file: the times of its first and its last row
KINDS = ("series", "events", "samples", "stacks")
CGROUP = "cgroup_id"  # an event that samples need: where they were
LOOKED, UNSEEN, TROUBLE = "looked", "unseen", "recorder_trouble"
OWN_PROCESS = "own_process"  # 1: it is ours, see places/own_processes.py; 0: it has ended
BUDGET_STEP = "budget_step"  # an event: the recorder used up its budget, and does less; or does more again


BOOT_ID = "/proc/sys/kernel/random/boot_id"


def segment_name(at: float) -> str:
    """A segment is named by the second it began in, so a listing shows which one to open."""
    return f"{int(at):010d}"


def is_segment(name: str) -> bool:
    return len(name) == 10 and name.isdecimal()


def file_name(kind: str, *, head: bool) -> str:
    """`head`: as format 1 named what was being written."""
    return f"{kind}.head.arrows" if head else f"{kind}.arrows"
