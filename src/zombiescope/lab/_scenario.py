"""The shapes of the lab: the truth about a fault, what it needs to run, and the names by which leftovers are found.

A scenario is a file: `TRUTH`, `NEEDS`, `SECONDS` for the diagnosis, and `run(scale)`, a context manager that makes the
fault happen, yields what it made, and always removes all of it again. With `SHORT = True` it is part of the short
score. With `RECORDED = True` it is over before the diagnosis begins, so it is recorded first. With `ALONE = True`
it is left out of a score beside a load: with others on its core it would be a fault.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass

# Signs that are easily taken for one another, so a scenario with one of them must not show the others.
CPU_CAUSES = ("cpu_throttling", "realtime_hog", "fork_storm", "defunct_processes", "blocked_tasks", "saturated_core")
KERNEL_CAUSES = ("direct_reclaim", "page_fault_storm", "irq_pile_up", "softirq_storm", "slab_bloat", "mount_explosion")
# A program that only works shows none of these.
CPU_FAULTS = (*CPU_CAUSES, "starved_thread", "starved_softirq", "driver_reset")
PREFIX = "zslab-"  # prefix of every name the lab gives: cgroups, network namespaces, interfaces, folders


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What a diagnosis of this fault must say, and must not say."""

    chain: tuple[str, ...] = ()  # the signs in order, root cause first; empty for a control: nothing may be accused
    unexplained: bool = False  # a symptom whose cause we have no sign for: found, and nothing accused
    noted: bool = False  # real, and harming nobody: found and noted, and nothing accused
    subject: str = ""  # a pattern for the subject of the root cause
    also: tuple[Truth, ...] = ()  # further faults at the same time: each must be reported as well, in any order
    may_also: tuple[tuple[str, str], ...] = ()  # further root causes that are true here: a sign, and why
    harmless: tuple[str, ...] = ()  # signs that are rightly found but caused nothing here
    silent: tuple[str, ...] = ()  # signs that must not be found, unless they are in the chain: innocent bystanders

    @property
    def root(self) -> str:
        """The sign of the root cause; empty for a control."""
        return self.chain[0] if self.chain else ""

    @property
    def innocent(self) -> set[str]:
        """The signs that must not be found."""
        return set(self.silent) - set(self.chain)

    def allows(self, sign: str, subject: str) -> bool:
        """Whether it is true here that this is a root cause: of this fault, of one beside it, or with a reason."""
        faults = (self, *self.also)
        if sign in {it.root for it in faults}:
            return any(it.root == sign and it.names(subject) for it in faults)
        return any(sign in (*it.chain, *it.harmless, *dict(it.may_also)) for it in faults)

    def names(self, subject: str) -> bool:
        return re.fullmatch(self.subject or ".*", subject, re.DOTALL) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault while it happens."""

    subject: str  # what a diagnosis should name: "cgroup:/zslab-throttled"
    says: str  # what is happening, in one sentence


def name_for(label: str) -> str:
    """A name that marks the lab and this process."""
    return f"{PREFIX}{label}-{os.getpid()}"


def missing(needs: tuple[str, ...]) -> list[str]:
    """What this machine lacks, each with how to get it."""
    known = _CHECKS.keys()
    return [
        f"{it}: {_HOW_TO_GET[it]}" if it in known else f"{it}: unknown"
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
    "iptables": _command("iptables-restore"),
    "bpf": lambda: os.path.exists("/sys/kernel/btf/vmlinux"),
    "ethtool": _command("ethtool"),
    "podman": lambda: shutil.which("podman") is not None and shutil.which("runc") is not None,
    "gcc": _command("gcc"),
    "fuse": lambda: os.path.exists("/dev/fuse"),
    "ray": lambda: bool(__import__("importlib.util").util.find_spec("ray")),
}
_HOW_TO_GET = {
    "root": "run it as root",
    "systemd": "apt-get install systemd dbus",
    "unshare": "apt-get install util-linux",
    "ip": "apt-get install iproute2",
    "iptables": "apt-get install iptables",
    "bpf": "a kernel with BPF and CONFIG_DEBUG_INFO_BTF",
    "ethtool": "apt-get install ethtool",
    "podman": "apt-get install podman runc",
    "gcc": "apt-get install gcc libc6-dev",
    "fuse": "modprobe fuse",
    "ray": "pip install ray",
}
