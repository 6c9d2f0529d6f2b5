"""The rows of a perf.data file's samples: whose each is, which stack it has, and which stacks are idle."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Ints, Mask, Who
from zombiescope.knowledge.functions import is_idle
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.profile.perf_data_chains import Chains, Stacks
from zombiescope.profile.perf_data_tasks import Tasks

Ids = npt.NDArray[np.int32]


def split(chains: Chains, numbers: Ids, pid: Ids, at: Ints, tasks: Tasks) -> tuple[Stacks, Ids]:
    """A chain is a stack; but a chain of a process that ran two programs is two stacks."""
    words, starts, users = chains.all()
    count = len(chains)
    first = np.zeros(count, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the sample each chain was first seen in
    stacks = Stacks(words, starts, np.arange(count, dtype=np.int32), pid[first], at[first])
    again = np.flatnonzero(users[numbers] & (first[numbers] != np.arange(len(numbers))))
    spaces = [tasks.spaces_of(pid[rows].astype(np.int64), at[rows]) for rows in (again, first[numbers[again]])]
    odd = spaces[0] != spaces[1]
    if not odd.any():
        return stacks, numbers
    pairs, one, which = np.unique(
        np.stack([numbers[again[odd]], spaces[0][odd]]), axis=1, return_index=True, return_inverse=True
    )
    rows = np.concatenate([first, again[odd][one]])
    numbers[again[odd]] = count + which.reshape(-1)
    more = np.concatenate([stacks.chain, pairs[0].astype(np.int32)])
    return Stacks(words, starts, more, pid[rows], at[rows]), numbers


def whos_of(
    pid: Ids, tid: Ids, at: Ints, cgroup: Ints, tasks: Tasks, cgroups: Mapping[int, str]
) -> tuple[list[Who], Ids]:
    """Distinct pids, names and cgroups, and which of them each sample belongs to."""
    pids, comms = tasks.named
    row = tasks.names_of(tid.astype(np.int64), at)
    nameless = np.flatnonzero((row < 0) | (pids[row] != pid) | (comms[row] < 0))
    threads, which = np.unique(np.stack([pid[nameless], tid[nameless]]), axis=1, return_inverse=True)
    row[nameless] = len(pids) + which.reshape(-1)
    # perf names an unknown thread by its number.
    names = [*tasks.comms, *(f":{thread}" for thread in threads[1].tolist())]
    pids = np.concatenate([pids, threads[0]])
    comms = np.concatenate([comms, np.arange(len(tasks.comms), len(names))])
    if cgroup.any():
        groups, group = np.unique(cgroup, return_inverse=True)
        rows, which = np.unique(row * len(groups) + group.reshape(-1), return_inverse=True)
    else:
        groups = np.zeros(1, np.int64)
        there = np.bincount(row, minlength=len(pids)) > 0
        rows, which = np.flatnonzero(there), (np.cumsum(there) - 1)[row]
    # Several rows may have the same name: threads of the same process.
    columns = pids[rows // len(groups)], comms[rows // len(groups)], rows % len(groups)
    order = np.lexsort(columns)
    begins = np.append(True, np.any([it[order][1:] != it[order][:-1] for it in columns], axis=0))[: len(order)]
    who = np.empty(len(order), np.int32)
    who[order] = np.cumsum(begins) - 1
    pid_of, comm_of, group_of = (it[order][begins].tolist() for it in columns)
    paths = [cgroups.get(it, f"cgroup:{it}" if it else "") for it in groups.tolist()]
    whos = zip(pid_of, map(names.__getitem__, comm_of), map(paths.__getitem__, group_of), strict=True)
    return list(map(Who._make, whos)), who[which.reshape(-1)]


def idle_of(stacks: Stacks, kernel: KallsymsText | None) -> Mask:
    """Only the idle task is idle; threads that force a core to idle (idle_inject) take time from others."""
    idle: Mask = np.zeros(len(stacks.chain), np.bool_)
    if kernel is not None:
        leaves, its_stacks = stacks.idle_task_leaves()
        idle[its_stacks] = kernel.those(leaves, is_idle)
    return idle
