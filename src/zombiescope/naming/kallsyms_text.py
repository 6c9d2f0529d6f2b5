"""The text of /proc/kallsyms, searched by halves where only a few names are needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from zombiescope.naming.kallsyms import LARGEST, LINE, UNKNOWN, Kallsyms, not_understood, text_base_of
from zombiescope.naming.ranges import Addresses, distinct

_FEW = 500  # addresses, those of all questions together: 20 µs each; to read 122,000 lines takes 30 ms
_ALIASES = 1000  # names of one address; a kernel has thirty, where empty sections begin
_NEAR = 2048  # bytes of text before an address that hold its other names


class KallsymsText:
    """The same, read when names are needed: a heatmap only asks whether cores were idle, for few addresses."""

    def __init__(
        self,
        text: bytes,
        source: str = "/proc/kallsyms",
        *,
        all_of_it: bool = False,
        running: Callable[[], bytes] | None = None,
    ) -> None:
        """`all_of_it`: it will be needed, and is cheapest now: reading it takes 10 MB for a moment.

        `running`: the text is a copy, in which only the kernel's own functions are right; this gives that of now, for
        addresses elsewhere.
        """
        self.text, self.source = text if text.endswith(b"\n") else text + b"\n", source
        self._running = running
        first = LINE.match(text)
        if not first or len(text) > LARGEST:
            raise not_understood(source, text, 0, 1)
        self._width = len(first[1])
        self._asked = 0  # addresses so far
        self.text_base = text_base_of(text, self._width) or None
        if all_of_it:
            self.whole  # noqa: B018

    @cached_property
    def whole(self) -> Kallsyms:
        return Kallsyms.parse(self.text, self.source)

    @property
    def zeroed(self) -> bool:
        return self.text_base is None and self.whole.zeroed

    def those(self, addresses: Addresses, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
        """As in Kallsyms: which addresses are in a function whose name is wanted."""
        once, which = np.unique(addresses, return_inverse=True)
        self._cover(once)
        if len(once) > _FEW:
            return self.whole.those(addresses, wanted)
        names = [self._names(address) for address in once.tolist()]
        if None in names:
            return self.whole.those(addresses, wanted)
        found: npt.NDArray[np.bool_] = np.array([any(map(wanted, its or ())) for its in names], np.bool_)
        return found[which.reshape(-1)]

    def names(self, addresses: Addresses) -> list[str]:
        """As in Kallsyms: for few addresses only the lines of their functions are read, and those of modules."""
        if not len(addresses):
            return []
        once = distinct(addresses)
        self._cover(once)
        self._asked += len(once)
        hidden = self._after(0) == self._modules_at
        if self._asked > _FEW or "whole" in self.__dict__ or hidden:
            return self.whole.names(addresses)
        lines = b"".join(dict.fromkeys(map(self._lines, once.tolist())))
        if self._after(int(once[-1])) < self._modules_at:
            found = Kallsyms.parse(lines, self.source).names(addresses)
            if UNKNOWN not in found:
                return found
        return Kallsyms.parse(lines + self.text[self._modules_at :], self.source).names(addresses)

    def _cover(self, addresses: Addresses) -> None:
        """In place of a copy take the text of now, unless all of these, which are in order, are the kernel's own."""
        if self._running is None or not len(addresses):
            return
        if self._after(int(addresses[0])) == 0 or self._after(int(addresses[-1])) == self._modules_at:
            text, self._running = self._running(), None
            self.text = text if text.endswith(b"\n") else text + b"\n"
            for kept in ("whole", "_modules_at"):
                self.__dict__.pop(kept, None)

    @cached_property
    def _modules_at(self) -> int:
        """Where the kernel's own symbols end, which are sorted: what follows is of modules, of BPF and so on."""
        at = self.text.find(b"\t[")
        return self.text.rfind(b"\n", 0, at) + 1 if at >= 0 else len(self.text)

    def _lines(self, address: int) -> bytes:
        """The lines of the kernel's own function at an address, and the one of the next, where it ends."""
        end = self._after(address)
        begin = self.text.rfind(b"\n", 0, max(end - 1, 0)) + 1
        same = self.text[begin : begin + self._width + 1]
        for _ in range(_ALIASES):
            above = self.text.rfind(b"\n", 0, max(begin - 1, 0)) + 1
            if not begin or not self.text.startswith(same, above):
                break
            begin = above
        following = self.text[end : self.text.find(b"\n", end) + 1] if end < self._modules_at else b""
        return self.text[begin:end] + following

    def _names(self, address: int) -> list[str] | None:
        """All names of the function at an address, by binary search; None in modules, which are not sorted."""
        low = self._after(address)
        lines = self.text[max(low - _NEAR, 0) : low].split(b"\n")[:-1]
        if not lines or low == self._modules_at:
            return None
        same = lines[-1][: self._width + 1]
        return [line[self._width + 3 :].decode("utf-8", "replace") for line in lines if line.startswith(same)]

    def _after(self, address: int) -> int:
        """Where the line of the first symbol of the kernel's own above an address begins."""
        low, high = 0, self._modules_at
        while low < high:
            begin = self.text.rfind(b"\n", low, (low + high) // 2) + 1 or low
            digits = self.text[begin : begin + self._width]
            if digits.isalnum() and int(digits, 16) > address:
                high = begin
            else:
                low = self.text.index(b"\n", begin) + 1
        return low
