"""Segments of a recording that are not settled: a reader settles them in memory, by the same code."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zombiescope.core import Host, UserError, amount
from zombiescope.recorder import carry as carries
from zombiescope.recorder.carry import Carry
from zombiescope.recorder.layout import CARRY, HEAD_FILE
from zombiescope.recorder.meta import open_regular
from zombiescope.recorder.stranger import why_stranger

if TYPE_CHECKING:
    from zombiescope.naming.kernel_names import KernelOnce
    from zombiescope.recorder.rows import Rows

MOST_BYTES = 128 << 20  # of one head: the capture ends one at 48 MB, and 64 MB may wait for a slow disk


class RawHeads:
    """Settles each head once, in order: the next one goes on where the last one ended."""

    def __init__(self, folder: str, meta: Mapping[str, Any]) -> None:
        self._folder, self._meta = folder, meta
        self._tables: dict[str, dict[str, pa.Table] | None] = {}
        self._carry: Carry | None = None
        self._kernel: KernelOnce | None = None
        self.damage: list[str] = []

    def size(self, segment: str) -> int:
        """Bytes of the head of a segment; 0 if it is settled."""
        try:
            found = os.lstat(self._path(segment))
        except OSError:
            return 0
        return found.st_size if stat.S_ISREG(found.st_mode) else 0

    def table(self, segment: str, kind: str) -> pa.Table | None:
        """Rows of a segment that is not settled; None if it is."""
        if segment not in self._tables:
            self._tables[segment] = self._settled(segment)
        tables = self._tables[segment]
        return None if tables is None else tables[kind]

    def readings(self, segment: str, kind: str, probes: Set[str]) -> Rows | None:
        """Rows of some probes, without its samples; None if it is settled, or was in memory."""
        if self._tables.get(segment) is not None or not self.size(segment):
            return None
        from zombiescope.recorder.settle import readings_of

        try:
            with open_regular(self._path(segment)) as file:
                return readings_of(file, self._meta, probes).of(kind)
        except OSError:
            return None

    def _settled(self, segment: str) -> dict[str, pa.Table] | None:
        if not (size := self.size(segment)):
            return None
        path = self._path(segment)
        if size > MOST_BYTES:
            raise UserError(f"{path}: more than {amount(MOST_BYTES)}; a recorder ends a head far earlier: refused")
        # With all that names stacks: not for settled recordings.
        from zombiescope.naming.kernel_names import KernelOnce
        from zombiescope.recorder.kernel_table import saved
        from zombiescope.recorder.settle import settled

        self._kernel = self._kernel or KernelOnce(partial(saved, self._folder))
        try:
            with open_regular(path) as file:
                carry, why = self._carry or self._last_carry(), why_stranger(self._folder, segment)
                host = None if why else Host()
                found = settled(file, self._meta, host=host, why=why, carry=carry, kernel=self._kernel)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # else it has been settled in the meantime
                self.damage.append(f"{path}: {(error.strerror or str(error)).lower()}")
            return None
        self._carry = found.carry
        self.damage += [f"{path}: {it}" for it in found.damage]
        return found.tables()

    def _last_carry(self) -> Carry:
        try:
            with open_regular(os.path.join(self._folder, CARRY)) as file:
                return carries.loaded(file.read(carries.MOST_BYTES + 1))
        except OSError:
            return Carry()

    def _path(self, segment: str) -> str:
        return os.path.join(self._folder, segment, HEAD_FILE)
