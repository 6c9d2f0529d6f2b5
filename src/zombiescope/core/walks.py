"""The kernel's functions that visit cgroups, by what they do it for: how a walk is known by its stack.

A name holds for the kernels that have it; what a compiler inlined is seen through its caller. Names end where a
compiler's suffix (.constprop.0, .isra.0) begins.
"""

from __future__ import annotations

from zombiescope.core.stacks import Frames

# One visit for each cgroup, the dead included: this is where their number is paid for.
VISITS = frozenset(
    {
        # before v5.8: every read of memory.numa_stat, and before v5.2 of memory.stat, adds up all descendants
        "mem_cgroup_nr_lru_pages",
        "mem_cgroup_node_nr_lru_pages",
        "memcg_sum_events",
        # since v5.13: what changed since the last flush is added up, up the tree, with interrupts off
        "cgroup_rstat_flush",
        "cgroup_rstat_flush_locked",
        "cgroup_rstat_flush_irqsafe",
        "cgroup_rstat_flush_atomic",
        "css_rstat_flush",
        "mem_cgroup_css_rstat_flush",
        "mem_cgroup_flush_stats",
        "__mem_cgroup_flush_stats",
        "do_flush_stats",
        "flush_memcg_stats_dwork",
        # the block layer's statistics, one group for each device and cgroup
        "blkg_rwstat_recursive_sum",
        "blkcg_print_stat",
        "blkcg_print_blkgs",
    }
)
# Opening, listing and printing cgroup files: a price for each file, whatever the number of cgroups behind it.
FILES = frozenset(
    {
        "cgroup_seqfile_show",
        "cgroup_file_open",
        "cgroup_file_release",
        "cgroup_seqfile_start",
        "memory_stat_show",
        "memcg_numa_stat_show",
        "memory_numa_stat_show",
        "memcg_stat_show",
        "memory_stat_format",
        "memcg_stat_format",
        "memcg1_stat_format",
        "cgroup_procs_show",
        "pidlist_array_load",
        "cgroup_pidlist_start",
        "kernfs_fop_readdir",
        "kernfs_iop_lookup",
        "cgroup_base_stat_cputime_show",
        "cpuacct_stats_show",
    }
)


# Reclaim goes through all cgroups too, but who waits for memory is no walker: direct_reclaim tells of that.
_RECLAIM = frozenset(
    {"shrink_node", "try_to_free_pages", "try_to_free_mem_cgroup_pages", "balance_pgdat", "shrink_slab"}
)


_ALL = VISITS | FILES


def visits(frames: Frames) -> bool:
    return walks(frames) and any(_plain(frame) in VISITS for frame in frames)


def walks(frames: Frames) -> bool:
    """Whether a stack is of somebody at work on cgroups, for either reason."""
    names = {_plain(frame) for frame in frames}
    return bool(names & _ALL) and not names & _RECLAIM


def deepest(frames: Frames) -> str:
    """The function that tells most about a walk: the outermost that visits, else the outermost of the files'."""
    names = [_plain(frame) for frame in frames]
    return next((it for it in names if it in VISITS), next((it for it in names if it in FILES), names[-1]))


def _plain(frame: str) -> str:
    return frame.partition(".")[0]
