"""Which processes were sampled, forked, began a program and exited: by the headers of records alone, 0.3 µs each.

Most processes of a busy node live for a moment and are in no sample. What is known before the records are decoded need
not be decoded: the mappings of such a process are five to ten records, 10 µs each.
"""

from __future__ import annotations

_COMM, _EXIT, _FORK, _SAMPLE = 3, 4, 7, 9
_IS_EXEC = 1 << 45  # of header.misc, in the first word of a record
_KIND = _PID = 0xFFFFFFFF
MOST = 1 << 19  # processes: more than a node starts in an hour


class Tasks:
    """Feed it all rings, then ask."""

    def __init__(self) -> None:
        self.execed: set[int] = set()
        self._sampled: set[int] = set()
        self._exited: set[int] = set()
        self._parent: dict[int, set[int]] = {}

    def feed(self, ring: memoryview) -> None:
        """What a ring of perf_event_open(2) held; what is damaged ends it."""
        sampled, exited, execed, parent = self._sampled, self._exited, self.execed, self._parent
        with ring[: len(ring) & ~7] as raw, raw.cast("Q") as words:
            at, end = 0, len(words)
            while at < end:
                head = words[at]
                size = head >> 51
                if size < 3 or at + size > end:
                    break
                kind = head & _KIND
                if kind == _SAMPLE:
                    sampled.add(words[at + 2] & _PID)
                elif kind == _COMM:
                    if head & _IS_EXEC:
                        execed.add(words[at + 1] & _PID)
                elif kind == _FORK:
                    both = words[at + 1]
                    if both & _PID != both >> 32:
                        parent.setdefault(both & _PID, set()).add(both >> 32)
                elif kind == _EXIT and words[at + 1] & _PID == words[at + 2] & _PID:
                    exited.add(words[at + 1] & _PID)
                at += size

    @property
    def too_many(self) -> bool:
        """No machine starts so many; a file of a stranger may say so."""
        return max(map(len, (self._sampled, self._exited, self.execed, self._parent))) > MOST

    def unneeded(self) -> frozenset[int]:
        """Processes that have exited, and neither they nor a descendant were sampled."""
        if self.too_many:
            return frozenset()
        needed, unread = set(self._sampled), list(self._sampled)
        while unread:
            for parent in self._parent.get(unread.pop(), ()):
                if parent not in needed:
                    needed.add(parent)
                    unread.append(parent)
        return frozenset(self._exited - needed)
