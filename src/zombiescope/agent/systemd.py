"""Telling systemd how we are (sd_notify): ready, reloading, stopping, alive."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

PATIENCE = 1.0  # seconds: systemd reads at once


class Systemd:
    """Silent where nobody asked for it."""

    def __init__(self) -> None:
        self._address = os.environ.pop("NOTIFY_SOCKET", "")  # not for our children
        usec, pid = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
        wanted = usec.isdecimal() and pid in ("", str(os.getpid()))
        self._every = int(usec) / 2e6 if wanted else 0.0  # seconds between signs of life: half of what systemd waits
        self._due = 0.0

    def say(self, *lines: str) -> None:
        if not self._address:
            return
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
            door.settimeout(PATIENCE)
            door.sendto("\n".join(lines).encode(), name)

    def tick(self, now: float) -> float:
        """A sign of life when one is due; seconds until the next."""
        if not self._every:
            return 60.0
        if now >= self._due:
            self._due = now + self._every
            self.say("WATCHDOG=1")
        return self._due - now

    def reloading(self) -> None:
        self.say("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
