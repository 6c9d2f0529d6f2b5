"""The programs that wanted more room than one may have, by name: what was left out is said with whose it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

MOST = 5  # programs that are named: those that wanted most


class Greedy:
    """Names them while they run; asked at the end."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def note(self, pids: Iterable[int], known: Mapping[int, str], ask: Callable[[int], str]) -> None:
        for pid in pids:
            if pid not in self._names:
                self._names[pid] = known.get(pid) or ask(pid)

    def all_said(self, stacks: Counter[int], functions: Counter[int], threads: Counter[int]) -> Iterator[str]:
        """What was too much for one segment, and whose it was."""
        for what, counts, why in (
            ("stacks", stacks, "have only the kernel's functions: its own would take too much room"),
            ("functions", functions, "have no name: it has too many"),
            ("names of threads", threads, "were forgotten: it has too many"),
        ):
            yield from (f"{it} {why}" for it in self.said(counts, what))

    def said(self, left_out: Counter[int], what: str) -> list[str]:
        """How much, by process, was left out: processes of one name together, those with most first."""
        counts, pids = Counter[str](), dict[str, list[int]]()
        for pid, count in sorted(left_out.items()):
            counts[self._names[pid]] += count
            pids.setdefault(self._names[pid], []).append(pid)
        most = counts.most_common(MOST)
        said = [f"{count:,} {what} of {name} (pid {_listed(pids[name])})" for name, count in most]
        rest = counts.total() - sum(count for _, count in most)
        return [*said, f"{rest:,} {what} of {len(counts) - MOST:,} other programs"] if rest else said


def _listed(pids: list[int]) -> str:
    return f"{pids[0]} and {len(pids) - 1:,} more" if len(pids) > 1 else str(pids[0])
