"""What sampling gives, by name, as a probe would declare it. Standard library only, for the capture process."""

from __future__ import annotations

from zombiescope.recorder.layout import CGROUP, OWN_PROCESS

NAME = "stacks"  # as a probe is called
SOURCE = "$ perf record -a -g"  # as core.samples has it, which imports numpy
GAP = "core_gap_seconds"  # derived.gaps reads it
TAKEN, LOST, SYMBOLS, USER_SYMBOLS = "samples_total", "samples_lost_total", "kernel_symbols", "user_symbols"
GIVES = (TAKEN, LOST, GAP, SYMBOLS, USER_SYMBOLS, CGROUP)
EVENTS = (GAP, CGROUP, OWN_PROCESS)
