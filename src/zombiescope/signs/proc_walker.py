"""A process keeps the kernel busy by reading files of /proc that cost a visit for each page, socket, process or mount.

Why it hurts: reading smaps or writing clear_refs holds the memory map of the process that is looked at, so its own
    page faults wait; listing sockets goes through the whole hash table; du over all container layers reads every
    inode. A metric that is on by default can cost more than the work that it measures.
False alarms: a person who runs ps or du once, a build's find, a job that drives its own GPU. Only what goes on for a
    second, takes a tenth of a core and keeps others waiting is accused. This tool itself reads /proc, and is named like
    any other.
References: fs/proc/task_mmu.c; Documentation/filesystems/proc.rst; cadvisor's referenced_memory metric.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zombiescope.core import Finding, Reading, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_work import Work, by_process, judged_over, length, longest, spells
from zombiescope.knowledge.functions import families, named, plain, shows

# Scale: shares of one core: what it takes from others on its core is the same on any node.
NEEDS = ("samples_total", "kernel_symbols")
MUCH = 0.1  # of one core, over the spell and a minute at least: a healthy exporter stays below 0.02 for all it does
LONG = 1.0  # seconds in all: a person's ps takes less
_FAMILIES = ("proc_walk", "driver_query", "file_walk")
# Of these two families only programs that look at what others do: a job asks its GPU's driver for its own work.
_FILES = ("du", "find", "updatedb", "updatedb.mlocat")
_MONITORS = ("nvidia-smi", "nv-hostengine", "dcgm-exporter", "nvidia-device-p", "gpu-feature-dis")


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject, samples in _walkers(timeline):
        for work in spells(subject, samples):
            if work.seconds >= LONG and work.seconds >= MUCH * judged_over(timeline, work.span):
                yield _finding(timeline, work)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return longest(timeline, _walkers(timeline), "proc_walk_sampled_seconds", "/proc")


def _walkers(timeline: Timeline) -> list[tuple[str, Samples]]:
    found = by_process(timeline.once(_walking))
    files = [it for it in by_process(timeline.once(_files)) if _name(it[0]) in _FILES]
    asked = [it for it in by_process(timeline.once(_asking)) if _name(it[0]).startswith(_MONITORS)]
    return sorted([*found, *files, *asked], key=lambda it: -it[1].seconds)


def _walking(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: shows(frames, "proc_walk"))


def _asking(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: shows(frames, "driver_query"))


def _files(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: shows(frames, "file_walk"))


def _name(subject: str) -> str:
    return subject.removeprefix("process:").rpartition("[")[0]


def _finding(timeline: Timeline, work: Work) -> Finding:
    hottest = work.samples.hottest()
    return Finding(
        subject=work.subject,
        span=work.span,
        says=(
            f"spent {work.seconds:.1f} s of {length(timeline):.0f} s {_what(hottest)} "
            f"({harmless(_where(hottest))}), up to {work.busiest:.2f} of a core"
        ),
        evidence=(work.samples.reading(work.subject, "proc_walk_sampled_seconds"),),
        harm=Harm(parts=tuple(work.burnt(timeline))),
    )


def _where(frames: Sequence[str]) -> str:
    wanted = named(*_FAMILIES)
    return next((it for frame in frames if (it := plain(frame)) in wanted), "")


def _what(frames: Sequence[str]) -> str:
    name = _where(frames)
    return next((it.says for it in families() if it.family in _FAMILIES and name in it.names), "there")
