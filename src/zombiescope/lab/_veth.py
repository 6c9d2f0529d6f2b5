"""Two network namespaces of the lab, joined by a veth pair."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from zombiescope.core import UserError
from zombiescope.lab._scenario import name_for
from zombiescope.places.own_python import FOLDER, environment


@dataclass(frozen=True, slots=True)
class End:
    """One end of the veth pair."""

    namespace: str
    nic: str
    address: str

    @property
    def inside(self) -> tuple[str, ...]:
        """The command prefix that runs a command there."""
        return ("ip", "netns", "exec", self.namespace)


@contextmanager
def cable(nics: tuple[str, str], network: str) -> Iterator[tuple[End, End]]:
    """Both ends up, with the first two addresses of a network such as 10.213.7; removed at the end."""
    one, other = (End(name_for(nic.rpartition("-")[2]), nic, f"{network}.{place}") for place, nic in enumerate(nics, 1))
    with ExitStack() as undo:
        for end in (one, other):
            ip("netns", "add", end.namespace)
            undo.callback(ip, "netns", "delete", end.namespace)
        peer = ("peer", "name", other.nic, "netns", other.namespace)
        ip("-n", one.namespace, "link", "add", one.nic, "type", "veth", *peer)
        for end in (one, other):
            ip("-n", end.namespace, "address", "add", f"{end.address}/24", "dev", end.nic)
            ip("-n", end.namespace, "link", "set", end.nic, "up")
        yield one, other


def with_rules(end: End, many: int) -> None:
    """So many rules that match nothing, gone with the namespace."""
    rules = (f"-A INPUT -s 172.{16 + it // 62_500}.{it // 250 % 250}.{it % 250} -j DROP" for it in range(many))
    text = "\n".join(["*filter", ":INPUT ACCEPT [0:0]", *rules, "COMMIT", ""])
    command = [*end.inside, "iptables-restore"]
    done = subprocess.run(
        command, cwd=FOLDER, env=environment(), input=text, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        raise UserError(f"iptables-restore: {done.stderr.strip()[-200:]}")


def ip(*argv: str) -> None:
    done = subprocess.run(["ip", *argv], cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"ip {' '.join(argv)}: {done.stderr.strip()}")
