"""A program that may use a full NUMA node only is OOM-killed, though another node has memory free."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.kernel_messages import recognise

WITHIN = 60.0  # seconds: the node is full for as long as it is wanted
_BOUND = ("MEMORY_POLICY", "CPUSET")  # mm/oom_kill.c: only some nodes may be used, by a policy or by cpuset.mems


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    for reading in effect.evidence:
        message = recognise(reading.text)
        if message is not None and message.fields.get("constraint") in _BOUND:
            says = "the kernel's log says that only some NUMA nodes might be used"
            yield Ground(kind="mechanism", says=says, evidence=(reading, cause.evidence[0]))
            return
