"""Which of the samples a question is about: a time, a core, a process, a cgroup."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from zombiescope.core.samples import Ints, Samples, Who


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which samples a question is about; what is None is not asked for. Idle cores never are."""

    start: int | None = None  # nanoseconds of the samples' clock; from then on …
    end: int | None = None  # … and before then
    cpu: int | None = None
    pid: int | None = None
    comm: str | None = None
    cgroup: str | None = None  # this one, and all below it

    def rows(self, samples: Samples) -> Ints:
        """The places of the samples that are meant."""
        first = 0 if self.start is None else int(np.searchsorted(samples.at, self.start))
        last = len(samples) if self.end is None else int(np.searchsorted(samples.at, self.end))
        part = slice(first, max(first, last))
        good = samples.busy[part].copy()
        if self.cpu is not None:
            good &= samples.cpu[part] == self.cpu
        if self.pid is not None or self.comm is not None or self.cgroup is not None:
            wanted = np.fromiter((self._means(who) for who in samples.whos), np.bool_, len(samples.whos))
            good &= wanted[samples.who[part]]
        found: Ints = np.flatnonzero(good) + first
        return found

    def _means(self, who: Who) -> bool:
        return (
            (self.pid is None or who.pid == self.pid)
            and (self.comm is None or who.comm == self.comm)
            and (self.cgroup is None or who.cgroup == self.cgroup or who.cgroup.startswith(f"{self.cgroup}/"))
        )


EVERYTHING = Chosen()


def naming(samples: Samples, rows: Ints) -> Samples:
    """The same samples, of which only these rows need names: that is quicker."""
    if samples.name_some is None or len(rows) == len(samples):
        return samples
    wanted = np.zeros(len(samples.idle), np.bool_)
    wanted[samples.stack[rows]] = True
    return replace(samples, name=partial(samples.name_some, np.flatnonzero(wanted)), name_some=None)
