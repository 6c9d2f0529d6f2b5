"""The shapes of the lab: what is true of a fault, what it needs, and how it is known by name when it left litter.

A scenario is a file: `TRUTH`, `NEEDS`, `SECONDS` that a diagnosis has to look, and `run(scale)`, a context manager that
makes the fault happen, yields what it made, and takes all of it away again whatever happens. One with `SHORT = True` is
part of the short score; one with `RECORDED = True` is over before the diagnosis begins, so it is recorded first.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

PREFIX = "zslab-"  # begins every name the lab gives: cgroups, network namespaces, interfaces, folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a diagnosis made while the fault happens must say, and must not."""

    root: str = ""  # the sign of the root cause; empty for a control, where nobody may be accused
    unexplained: bool = False  # it is a symptom whose cause is no sign of ours: found, and nobody accused
    subject: str = ""  # a pattern for whom it names
    chain: tuple[str, ...] = ()  # the signs in order, first cause first
    also: tuple[Truth, ...] = ()  # further faults at the same time: each must be told as well, in any order
    harmless: tuple[str, ...] = ()  # signs that are found, and rightly, but led to nothing here
    silent: tuple[str, ...] = ()  # signs that must not be found: this fault's innocent bystanders

    def names(self, subject: str) -> bool:
        return re.fullmatch(self.subject or ".*", subject, re.DOTALL) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault while it happens."""

    subject: str  # whom a diagnosis should name: "cgroup:/zslab-throttled"
    says: str  # what is happening, in one sentence


def name_for(label: str) -> str:
    """A name that is ours, and this process's."""
    return f"{PREFIX}{label}-{os.getpid()}"


def missing(needs: tuple[str, ...]) -> list[str]:
    """Which needs this machine does not meet, each with the way to meet it."""
    known = _CHECKS.keys()
    return [
        f"{it}: {_CURES[it]}" if it in known else f"{it}: unknown"
        for it in needs
        if it not in known or not _CHECKS[it]()
    ]


def _command(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


_CHECKS: dict[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "systemd": lambda: os.path.exists("/lib/systemd/systemd"),
    "unshare": _command("unshare"),
    "ip": _command("ip"),
    "ethtool": _command("ethtool"),
    "podman": lambda: shutil.which("podman") is not None and shutil.which("runc") is not None,
    "gcc": _command("gcc"),
    "fuse": lambda: os.path.exists("/dev/fuse"),
    "ray": lambda: bool(__import__("importlib.util").util.find_spec("ray")),
}
_CURES = {
    "root": "run it as root",
    "systemd": "apt-get install systemd dbus",
    "unshare": "apt-get install util-linux",
    "ip": "apt-get install iproute2",
    "ethtool": "apt-get install ethtool",
    "podman": "apt-get install podman runc",
    "gcc": "apt-get install gcc libc6-dev",
    "fuse": "modprobe fuse",
    "ray": "pip install ray",
}
