"""The kernel log by the system call syslog(2), for where /dev/kmsg cannot be opened: in a container.

A runtime forbids devices that it does not know, whatever the container may do otherwise, and Kubernetes has no way to
allow one but `privileged`. The call needs CAP_SYSLOG alone. It copies the whole log, so it is made less often; a line
is found again by its own bytes.

Kernel: syslog(2), SYSLOG_ACTION_READ_ALL and SYSLOG_ACTION_SIZE_BUFFER. Lines have a time unless printk.time is off.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Iterator

from zombiescope.core import Unreadable
from zombiescope.kernel.kmsg import KernelLog

SOURCE = "$ dmesg"
PAUSE = 5.0  # seconds between two calls: one formats the whole log, some 5 ms
LARGEST = 64 << 20  # bytes; CONFIG_LOG_BUF_SHIFT allows 32 MB
_READ_ALL, _SIZE_BUFFER = 3, 10  # include/linux/syslog.h
# <6>[ 1234.567890] text, and with the caller: <6>[ 1234.567890][    T1] text
_LINE = re.compile(rb"<(\d{1,3})>\[ {0,5}(\d{1,10})\.(\d{6})\](?:\[ *[TC]\d+\])? ?(.*)", re.DOTALL)


class CalledLog(KernelLog):
    """As KernelLog; Unreadable if the call is refused too."""

    source = SOURCE

    def __init__(self) -> None:
        self._last, self._number, self._due = b"", 0, float("-inf")
        self._begin()
        if self._copy() and not any(_LINE.match(it) for it in self._copy().split(b"\n")):
            raise Unreadable(SOURCE, "the kernel writes no times (printk.time)")

    def close(self) -> None:
        """Nothing is held open."""

    def _records(self) -> Iterator[bytes]:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + PAUSE
        text = self._copy()
        if self._last:
            before, found, after = text.rpartition(self._last)
            # Not there any more: the log was overwritten since, or cleared; how many lines went cannot be known.
            self.lost += not found
            text = after if found else after or before
        lines = [it for it in text.split(b"\n") if it]
        for line in lines:
            if told := _LINE.fullmatch(line):
                self._number += 1
                level, seconds, micro, words = told.groups()
                yield b"%s,%d,%d,-;%s" % (level, self._number, int(seconds) * 10**6 + int(micro), words)
        if lines:
            self._last = b"\n" + lines[-1] + b"\n"

    def _copy(self) -> bytes:
        """All of it, with a newline before and behind: a line is looked for whole."""
        libc = ctypes.CDLL(None, use_errno=True)
        size = min(max(int(libc.klogctl(_SIZE_BUFFER, None, 0)), 1 << 16), LARGEST)
        # A line's prefix is not stored: formatted, the log may be longer than its buffer. The newest lines are given.
        buffer = ctypes.create_string_buffer(size * 2)
        got = int(libc.klogctl(_READ_ALL, buffer, len(buffer)))
        if got < 0:
            raise Unreadable(SOURCE, os.strerror(ctypes.get_errno()).lower())
        return b"\n" + buffer.raw[:got].strip(b"\n") + b"\n"
