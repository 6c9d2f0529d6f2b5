"""Containers by name, image and pod, the node's pods, and how often each was restarted.

`container_info` is 1 while the container exists and 0 once it is gone; its text says what it is. The subject is its
cgroup, or its id where a stopped container has none.

Overhead: a listing of each store, 40 µs, and 90 µs for each container that is new. Every `RENEWED` seconds the
    container shims are searched for, 10 µs a process, and pods' log folders are listed, 20 µs a container.
Kernel: none; see audit/containers.py for the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from zombiescope.audit.containers import Container, container, ids
from zombiescope.audit.pod_logs import MOST as MOST_LOGS
from zombiescope.audit.pod_logs import SOURCE, Pod, pods
from zombiescope.audit.running import sees_all, silent
from zombiescope.audit.stores import USUAL, Store, stores
from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.core.commands import shown_by
from zombiescope.core.witness import Witness
from zombiescope.probes._remembering import Look, renewing

EVERY = 6.0  # a container that restarts over and over lives for seconds
WITNESS = Witness.NAMES
GIVES = ("container_info", "pod_info", "container_restarts_total", "containers")
RENEWED = 60.0  # seconds: for what costs more than a listing
MOST = 2_000  # containers reported in one sample: ten times a full node
NEW = 100  # new containers read in one sample, 9 ms; the rest follow in the next samples
LONGEST = 600  # characters of the description: a name has up to 63, an image's up to 255


def watch(host: Host) -> AbstractContextManager[Look]:
    """Remembers each container, so that only new ones are read."""
    node = _Node(host)
    return renewing(node.renew, lambda: node.told(new=NEW), RENEWED)


def read(host: Host) -> Iterator[Reading | Blind]:
    node = _Node(host)
    node.renew()
    return node.told(new=MOST)


class _Node:
    """The known containers of a node."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._stores: list[Store] = []
        self._known: dict[str, Container | None] = {}  # None: it exists, but its file is not understood
        self._pods: list[Pod] = []
        self._pods_before: dict[str, str] = {}  # by uid: its name, as it was last told
        self._pods_left_out: list[str] = []  # folders of logs with more names than are read
        self._no_pods: Unreadable | None = None
        self._renewed = False  # since the last sample: then all are reported, else only new and removed ones

    def renew(self) -> None:
        self._renewed = True
        self._stores = stores(self._host)
        self._pods_left_out = []
        try:
            self._pods, self._no_pods = list(pods(self._host, self._pods_left_out)), None
        except Unreadable as error:
            self._pods, self._no_pods = [], error

    def told(self, new: int) -> Iterator[Reading | Blind]:
        for error in silent():  # a runtime of its own is not found then
            yield Blind(what=GIVES[0], source=error.source, why=error.why, subject="node")
        at = self._host.now()
        if not self._stores and self._no_pods is not None:
            if not sees_all(self._host):
                raise Unreadable(USUAL[0], "no known container runtime stores anything here")
            yield Reading(what=GIVES[3], subject="node", value=0, at=at, source=shown_by("ls", "-d", *USUAL))
            return
        present, left_out = self._present()
        unmet = [name for name in present if name not in self._known]
        gone = [name for name in self._known if name not in present]
        # Restart counts, and files not understood at first, are read again now and then.
        again = [
            name for name, it in self._known.items() if name in present and (it is None or it.restarts is not None)
        ]
        for name in [*unmet, *(again if self._renewed else [])][:new]:
            self._meet(name, present[name])
        for name in list(self._known) if self._renewed else [*unmet, *gone]:
            one = self._known.get(name)
            if one is not None:
                yield _info(one, at, value=float(name in present))
                if one.restarts is not None:
                    yield _restarts(one.name or one.id, one.restarts, at, one.source, one.words)
        for name in gone:
            del self._known[name]
        if self._renewed:
            yield from self._pods_told(at)
        self._renewed = False
        if self._no_pods is not None:
            counted = any(one is not None and one.restarts is not None for one in self._known.values())
            for what in GIVES[1:2] if counted else GIVES[1:3]:
                yield Blind(what=what, source=self._no_pods.source, why=self._no_pods.why)
        if left_out:
            why = f"more than {MOST:,} containers: the rest are not read"
            source = shown_by("ls", left_out)
            yield from (Blind(what=what, source=source, why=why, subject="node") for what in (GIVES[0], GIVES[2]))
            yield Blind(what=GIVES[3], source=source, why=why)
        else:
            yield Reading(what=GIVES[3], subject="node", value=len(present), at=at, source=_source(self._stores))
        if odd := sum(one is None for one in self._known.values()):
            why = f"{odd} of {len(present)} containers have a description that is not understood"
            yield Blind(what=GIVES[0], source=_source(self._stores), why=why, subject="node")

    def _meet(self, name: str, places: list[Store]) -> None:
        """Read a container's description from one of the stores that have a folder for it."""
        for store in places:
            try:
                self._known[name] = container(self._host, store, name)
                return
            except Unparsable:
                self._known[name] = None
            except Unreadable:
                continue  # described elsewhere, just created or just removed

    def _present(self) -> tuple[dict[str, list[Store]], str]:
        """Every container, and where its description may be: docker, podman and CRI-O have two folders each. And the
        store in which there were more than are read, if there was one."""
        found: dict[str, list[Store]] = {}
        left_out = ""
        for store in self._stores:
            try:
                names, more = ids(self._host, store)
            except Unreadable:
                continue  # the runtime was stopped
            for name in names:
                if name in found or len(found) < MOST:
                    found.setdefault(name, []).append(store)
                else:
                    more = True
            left_out = store.path if more else left_out
        return found, left_out

    def _pods_told(self, at: float) -> Iterator[Reading | Blind]:
        """A pod that was deleted is told once more, with 0: its last counts would seem to hold."""
        names = {pod.uid: f"{pod.namespace}/{pod.name}" for pod in self._pods}
        if self._no_pods is None:
            for uid in self._pods_before.keys() - names.keys():
                words = f"pod {self._pods_before[uid]}"
                yield Reading(what=GIVES[1], subject=f"pod:{uid}", value=0, at=at, source=f"$ ls {SOURCE}", text=words)
            self._pods_before = names
            if self._pods_left_out:
                why = f"more than {MOST_LOGS:,} names in it: the rest are not read"
                source = shown_by("ls", self._pods_left_out[0])
                yield from (Blind(what=what, source=source, why=why, subject="node") for what in GIVES[1:3])
        for pod in self._pods:
            folder = f"{SOURCE}/{pod.namespace}_{pod.name}_{pod.uid}"
            words = f"pod {pod.namespace}/{pod.name}"
            yield Reading(
                what=GIVES[1], subject=f"pod:{pod.uid}", value=1, at=at, source=shown_by("ls", folder), text=words
            )
            for name, times in pod.restarts.items():
                whole = f"{pod.namespace}/{pod.name}/{name}"
                yield _restarts(whole, times, at, shown_by("ls", f"{folder}/{name}"), f"container {name} of {words}")


def _info(one: Container, at: float, value: float) -> Reading:
    subject = f"cgroup:{one.cgroup}" if one.cgroup else f"container:{one.id}"
    return Reading(what=GIVES[0], subject=subject, value=value, at=at, source=one.source, text=one.words[:LONGEST])


def _restarts(name: str, times: int, at: float, source: str, words: str) -> Reading:
    return Reading(what=GIVES[2], subject=f"container:{name}", value=times, at=at, source=source, text=words)


def _source(found: list[Store]) -> str:
    return shown_by("ls", *(store.path for store in found)) if found else USUAL[0]
