"""A BPF program at every system call of a busy process takes most of its time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._hook import hook_user
from zombiescope.lab._scenario import Fault, Truth

TRUTH = Truth(
    chain=("hook_tax",),
    subject=r"hook:BPF program zslab_watch",
    silent=("cpu_throttling", "realtime_hog", "fork_storm", "blocked_tasks", "proc_walker", "kernel_lock"),
)
NEEDS = ("root", "bpf")
SECONDS = 8.0
TURNS = 20_000  # of a loop, for each call: some 10 µs, as a program that follows pointers and compares paths


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    turns = min(round(TURNS * max(scale, 0.01)), 200_000)  # the verifier allows a million instructions
    with hook_user("calls", "0.8") as pid, hook_user("hooks", str(pid), str(turns)) as hook:
        yield Fault(subject="hook:BPF program zslab_watch", says=f"process {hook} watches each system call of {pid}")
