"""Many cores spin for one lock of the kernel, so that adding cores makes the node slower.

Why it hurts: a spinning core does nothing else, in part with interrupts off. Twelve kswapds that spin for the lock of
    the cgroup statistics took 20,000 cores of one fleet; containers that start together spin for the lock of the
    mounts.
False alarms: a lock that is held for a moment is spun for everywhere; only what takes a fifth of a core and a tenth
    of the kernel's time counts. In a virtual machine a holder whose core was taken away by the host looks the same:
    where there was steal time it is said.
References: kernel/locking/qspinlock.c, rwsem.c, mutex.c; Documentation/locking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zombiescope.core import Finding, Reading, Span, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_work import Work, by_process, length, spells
from zombiescope.knowledge.functions import named, plain

# Scale: cores' worth, and a share of the kernel's time, which grows with the node.
NEEDS = ("samples_total", "kernel_symbols")
CORES = 0.2  # of a core, over the spell: builds, deletions and container starts measured here spin for none
SHARE = 0.1  # of the kernel's time then: on 192 cores that is much more than CORES
STOLEN = 0.05  # of the node's time: with more, the holder's core may simply have been away
NAMED = 3  # waiters named in a sentence
WAITERS = 20  # whose lost time is counted one by one: more spin for less
_SPIN = frozenset(
    {
        *("native_queued_spin_lock_slowpath", "queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath"),
        *("pv_queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath"),
        *("osq_lock", "rwsem_spin_on_owner", "mutex_spin_on_owner", "rwsem_optimistic_spin", "virt_spin_lock"),
    }
)
# What calls for the lock, and what the lock is for.
_KNOWN = {
    **dict.fromkeys(("path_init", "lookup_mnt", "__lookup_mnt", "mntput_no_expire", "namespace_unlock"), "mounts"),
    **dict.fromkeys(("do_mount", "attach_recursive_mnt", "clone_mnt", "copy_mnt_ns", "mount_setattr"), "mounts"),
    **dict.fromkeys(("css_rstat_flush", "cgroup_rstat_flush", "cgroup_rstat_flush_locked"), "cgroup statistics"),
    **dict.fromkeys(("do_user_addr_fault", "do_mmap", "vm_mmap_pgoff", "__vm_munmap", "__do_munmap"), "a memory map"),
    **dict.fromkeys(("mmap_write_lock_killable", "lock_mm_and_find_vma", "do_mprotect_pkey"), "a memory map"),
    **dict.fromkeys(("rtnl_lock", "rtnetlink_rcv_msg", "rtnl_lock_killable"), "network settings (RTNL)"),
    **dict.fromkeys(("folio_lruvec_lock_irqsave", "lru_add_drain_cpu", "shrink_inactive_list"), "the lists of pages"),
    **dict.fromkeys(("rmqueue_bulk", "free_pcppages_bulk", "get_page_from_freelist"), "free pages"),
    **dict.fromkeys(("futex_wait", "futex_wake", "futex_wait_setup"), "futexes"),
    **dict.fromkeys(("d_lookup", "lockref_get_not_dead", "dput", "d_alloc_parallel"), "names of files"),
}


def find(timeline: Timeline) -> Iterator[Finding]:
    spinning = timeline.once(_spinning)
    sites = _by_site(spinning)
    for site, samples in sorted(sites.items(), key=lambda it: -it[1].seconds):
        for work in spells(f"lock:{site}", samples):
            cores = work.seconds / max(work.span.seconds, 1.0)
            kernel = _kernel_seconds(timeline, work.span)
            if cores >= CORES and work.seconds >= SHARE * kernel > 0:
                yield _finding(timeline, site, work, cores, kernel)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    taken, spun = timeline.series(NEEDS[0]).latest, timeline.once(_spinning)
    if not len(spun):
        return f"none of {taken.value:,.0f} stack samples spins for a lock", (taken,)
    cores = spun.seconds / length(timeline)
    return f"{cores:.2f} of a core spins for locks", (spun.reading("node", "lock_sampled_seconds"), taken)


def site_of(frames: Sequence[str]) -> str:
    """What asks for the lock: the first function outside of locking, seen from the innermost; in words where known."""
    locking = named("lock", "lock_call") | _SPIN
    outside = [name for frame in reversed(frames) if (name := plain(frame)) not in locking]
    known = next((_KNOWN[name] for name in outside[:4] if name in _KNOWN), "")
    return known or (outside[0] if outside else "unknown")


def _spinning(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: plain(frames[-1]) in _SPIN)


def _by_site(samples: Samples) -> dict[str, Samples]:
    sites = {stack: site_of(samples.frames.names(stack)) for stack in np.unique(samples.stack).tolist()}
    found: dict[str, list[int]] = {}
    for stack, site in sites.items():
        found.setdefault(site, []).append(stack)
    return {site: samples.only(np.isin(samples.stack, stacks)) for site, stacks in found.items()}


def _kernel_seconds(timeline: Timeline, span: Span) -> float:
    what = "cpu_system_seconds_total"
    rates = [timeline.rate(what, cpu).between(span) for cpu in timeline.subjects(what, "cpu")]
    cores = float(np.nansum([rate.mean() for rate in rates if len(rate)]))
    return cores * max(span.seconds, 1.0)


def _holder(timeline: Timeline, site: str, work: Work) -> tuple[str, Samples] | None:
    """Who worked most in what the lock is for without spinning: it has the lock while the others spin for it."""
    wanted = {name for name, known in _KNOWN.items() if known == site} or {site}
    inside = timeline.samples(
        work.span, wanted=lambda frames: plain(frames[-1]) not in _SPIN and any(plain(it) in wanted for it in frames)
    )
    return next(iter(by_process(inside)), None) if len(inside) else None


def _finding(timeline: Timeline, site: str, work: Work, cores: float, kernel: float) -> Finding:
    who, holder = by_process(work.samples), _holder(timeline, site, work)
    waiters = ", ".join(harmless(it[0].removeprefix("process:")) for it in who[:NAMED])
    more = f" and {len(who) - NAMED} more" if len(who) > NAMED else ""
    stolen = _stolen(timeline, work.span)
    says = (
        f"is spun for by {cores:.1f} cores ({percent(work.seconds / kernel)} of the kernel's time): {waiters}{more}; "
        f"asked for in {harmless(plain(_asker(work.samples.hottest())))}"
    )
    held = ""
    if holder is not None:
        times = f"{holder[1].seconds:.1f} s in {harmless(plain(_asker(holder[1].hottest())))}"
        held = f"; held most by {harmless(holder[0].removeprefix('process:'))}, {times}"
    # Who spins stands still: its own time is lost, whether or not others wait for the core.
    parts = [
        Part(figure="waited", who=subject, amount=own.seconds / max(work.span.seconds, 1.0), span=work.span)
        for subject, own in who[:WAITERS]
    ]
    return Finding(
        subject=f"lock:{site}",
        span=work.span,
        says=says
        + held
        + (f"; {percent(stolen)} of the time was stolen by the host, its holder may have been away" * (stolen > 0)),
        evidence=(
            work.samples.reading(f"lock:{site}", "lock_sampled_seconds"),
            *([holder[1].reading(holder[0], "lock_held_sampled_seconds")] if holder is not None else []),
        ),
        culprit=holder[0] if holder is not None else who[0][0],
        harm=Harm(parts=tuple(parts)),
    )


def _asker(frames: Sequence[str]) -> str:
    locking = named("lock", "lock_call") | _SPIN
    return next((frame for frame in reversed(frames) if plain(frame) not in locking), frames[-1])


def _stolen(timeline: Timeline, span: Span) -> float:
    what = "cpu_steal_seconds_total"
    rates = [timeline.rate(what, cpu).between(span).mean() for cpu in timeline.subjects(what, "cpu")]
    share = float(np.nanmean(rates)) if rates else 0.0
    return share if share >= STOLEN else 0.0
