"""What the agent reports to the cluster: the one thing of this room that it knows.

Off unless it is asked for. The client and TLS (4 MB) are loaded only then.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zombiescope.core import UserError
from zombiescope.kubernetes import events
from zombiescope.kubernetes.conditions import conditions, unknown

if TYPE_CHECKING:
    from zombiescope.kubernetes.access import Access
    from zombiescope.kubernetes.reporter import Log, Reporter

NODE_NAME = "NODE_NAME"  # set from spec.nodeName in the manifests
FOLLOWED = 20  # findings that become events; a node with more has one cause to find
REPEATED = 1200.0  # seconds: an event expires after an hour on the server, and a finding goes on for longer
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")  # of a node: a DNS subdomain
_CONTAINER = re.compile(r"container:([a-z0-9-]{1,63}/[a-z0-9.-]{1,253})/[a-z0-9.-]{1,253}")


def node_name(given: str) -> str:
    """As told, as the pod knows it, or as the kubelet would by default."""
    name = given or os.environ.get(NODE_NAME, "") or os.uname().nodename.lower()
    if not _NAME.fullmatch(name):
        raise UserError(f"node-name: {name!r} is not the name of a node")
    return name


def checked(kubeconfig: str, node: str) -> tuple[Access, str]:
    """The way to a server and the node's name; a UserError for what cannot work."""
    from zombiescope.kubernetes import access
    from zombiescope.kubernetes import kubeconfig as files

    return files.access(kubeconfig) if kubeconfig else access.in_cluster(), node_name(node)


def _pod(found: Mapping[str, Any]) -> str:
    """Namespace and name of the pod that it is about; they become part of a path, so nothing else will do."""
    whose = _CONTAINER.fullmatch(str(found["subject"]))
    return whose[1] if whose and ".." not in whose[1] else ""


class NodeReport:
    """Knows what was said before; what it says goes to a thread."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._reporter: Reporter | None = None
        self._used: tuple[bool, str, str] = (False, "", "")
        self._node = ""
        self._told: dict[str, tuple[dict[str, Any], float]] = {}  # by id: what goes on, and when it was last an event
        self._looked, self._silent = 0.0, 0.0

    def use(self, on: bool, kubeconfig: str, node: str, window: float) -> None:
        """What the settings say now; what is as before goes on."""
        # Looks come twice a window at least. A minute more: one late look is no reason to say "unknown".
        self._silent = window / 2 + 60.0
        if (on, kubeconfig, node) == self._used:
            return
        # Who goes on by another way has not stopped, and an old word must not arrive after a new one.
        self.close(0.0, silent=on and node == self._used[2])
        self._used = (on, kubeconfig, node)
        if on:
            from zombiescope.kubernetes.client import Client
            from zombiescope.kubernetes.reporter import Reporter

            access, self._node = checked(kubeconfig, node)
            self._reporter, self._looked = Reporter(Client(access), self._node, self._log), time.monotonic()

    def close(self, patience: float, *, silent: bool = False) -> None:
        if self._reporter is not None:
            last = unknown("AgentStopped", "the agent on this node was stopped: nobody looks")
            self._reporter.close(() if silent else last, patience)
        self._reporter, self._told, self._used = None, {}, (False, "", "")

    def looked(self, states: Mapping[str, str], going_on: Sequence[Mapping[str, Any]]) -> None:
        """After each good look."""
        if self._reporter is None:
            return
        self._looked = time.monotonic()
        self._reporter.tell(conditions(self._node, states, going_on))
        now = time.time()
        present = {str(it["id"]): dict(it) for it in list(going_on)[:FOLLOWED]}
        for whose, found in present.items():
            before, at = self._told.get(whose, ({}, 0.0))
            if before.get("severity") == found["severity"] and 0 <= now - at < REPEATED:
                self._told[whose] = (found, at)
                continue
            self._reporter.event(events.body(self._node, found, now, ended=False), _pod(found))
            self._told[whose] = (found, now)
        for whose in self._told.keys() - present.keys():
            found, _ = self._told.pop(whose)
            self._reporter.forget(events.name(self._node, found, ended=False))
            self._reporter.event(events.body(self._node, found, now, ended=True))

    def tick(self, now: float) -> float:
        """Whether nobody has looked for too long; seconds until that is asked again."""
        if self._reporter is not None and now - self._looked > self._silent:
            self._reporter.tell(unknown("NoFreshLook", "no look at this node succeeds: see the agent's log"))
        return 60.0

    @property
    def lost(self) -> dict[str, int]:
        return {"kubernetes": self._reporter.lost} if self._reporter is not None else {}
