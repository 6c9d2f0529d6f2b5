"""Cordon a node, evict its pods as their disruption budgets allow, uncordon it: the cluster's way, by its API.

Left where they are: pods of DaemonSets, which would come back at once; mirror pods, which are files on the node; pods
that have ended. A pod without a controller would be gone for good: it stops the drain before anything is evicted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from zombiescope.core import harmless
from zombiescope.kubernetes.client import MERGE, MOST_LIST, Client, Refused

OURS = "zombiescope.io/cordoned"  # annotation: the node could be used before, so uncordon may make it so again
MIRROR = "kubernetes.io/config.mirror"
PAGE = 250  # pods of one answer
MOST_PAGES = 20
AGAIN = 5.0  # seconds between tries that a budget refused, as kubectl has it
GONE = 2.0  # seconds between looks whether pods are gone
NAMED = 5  # pods that a message names
Say = Callable[[str], None]


class NotDrained(Exception):
    """Pods are left, and why; the node stays cordoned until `uncordon`."""


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    left: str  # why it stays where it is; empty: it is to go
    alone: bool  # without a controller

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.name, safe='')}"

    def __str__(self) -> str:
        return harmless(f"{self.namespace}/{self.name}", most=200)


def cordon(client: Client, node: str) -> str:
    """No new pods. Whether it was so before is kept in an annotation."""
    path = f"/api/v1/nodes/{quote(node, safe='')}"
    if _mapping(client.get(path).body, "spec").get("unschedulable"):
        return f"{node} was cordoned already"
    change = {"metadata": {"annotations": {OURS: "true"}}, "spec": {"unschedulable": True}}
    client.patch(path, change, MERGE)
    return f"{node} is cordoned"


def uncordon(client: Client, node: str) -> str:
    """As it was before `cordon`; a node that somebody else cordoned stays so."""
    path = f"/api/v1/nodes/{quote(node, safe='')}"
    told = client.get(path).body
    if OURS not in _mapping(_mapping(told, "metadata"), "annotations"):
        return f"{node} was not cordoned by us: it stays as it is"
    client.patch(path, {"metadata": {"annotations": {OURS: None}}, "spec": {"unschedulable": None}}, MERGE)
    return f"{node} can be used again"


def drain(client: Client, node: str, patience: float, say: Say) -> None:
    """Until every pod that is to go is gone. NotDrained names what is left when the time is over."""
    deadline = time.monotonic() + patience
    found = list(pods(client, node))
    alone = [it for it in found if it.alone and not it.left]
    if alone:
        raise NotDrained(f"without a controller, they would be gone for good: {_named(alone)}")
    going = [it for it in found if not it.left]
    say(f"{len(going)} pods to evict, {len(found) - len(going)} stay")
    version = eviction_version(client)
    refused = _evict_all(client, going, version, deadline, say)
    if refused:
        raise NotDrained("; ".join(f"{pod}: {why}" for pod, why in list(refused.items())[:NAMED]))
    _await_all(client, going, deadline)
    say(f"{node} is drained")


def pods(client: Client, node: str) -> Iterator[Pod]:
    path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{quote(node, safe='')}&limit={PAGE}"
    after = ""
    for _ in range(MOST_PAGES):
        told = client.get(path + (f"&continue={quote(after, safe='')}" if after else ""), most=MOST_LIST).body
        items = told.get("items")
        if not isinstance(items, list):  # an answer that is not understood is not an empty node
            raise NotDrained("the API server's list of pods is not understood")
        for it in items:
            yield _pod(it if isinstance(it, dict) else {})
        after = str(_mapping(told, "metadata").get("continue") or "")
        if not after:
            return
    raise NotDrained(f"more than {PAGE * MOST_PAGES} pods")


def eviction_version(client: Client) -> str:
    """policy/v1 from 1.22 on, policy/v1beta1 before: the server's own list says which it takes."""
    listed = client.get("/api/v1").body.get("resources")
    for it in listed if isinstance(listed, list) else ():
        if isinstance(it, dict) and it.get("name") == "pods/eviction":
            return f"{it.get('group') or 'policy'}/{it.get('version') or 'v1'}"
    return "policy/v1"


def _evict_all(client: Client, going: list[Pod], version: str, deadline: float, say: Say) -> dict[Pod, str]:
    """Pods that a budget or a busy server refused until the end, with its last words."""
    waiting = dict.fromkeys(going, "")
    while waiting:
        pause = 0.0
        for pod in list(waiting):
            try:
                _evict(client, pod, version)
            except Refused as error:
                if not error.later:
                    raise
                if str(error) != waiting[pod]:
                    say(f"{pod} waits: {error}")
                waiting[pod], pause = str(error), max(pause, error.pause)
                continue
            say(f"{pod} is evicted")
            del waiting[pod]
        if waiting:
            pause = max(pause, AGAIN) * random.uniform(0.8, 1.2)
            if time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
    return waiting


def _evict(client: Client, pod: Pod, version: str) -> None:
    """The uid keeps a new pod of the same name (a StatefulSet's) from being evicted in place of the old one."""
    body = {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    try:
        client.create(f"{pod.path}/eviction", body)
    except Refused as error:
        replaced = error.status == 409 and "uid" in str(error).lower()
        if error.status != 404 and not replaced:
            raise


def _await_all(client: Client, going: list[Pod], deadline: float) -> None:
    left = list(going)
    while left:
        left = [pod for pod in left if _there(client, pod)]
        if left and time.monotonic() + GONE > deadline:
            raise NotDrained(f"evicted, but not gone yet: {_named(left)}")
        if left:
            time.sleep(GONE)


def _there(client: Client, pod: Pod) -> bool:
    try:
        told = client.get(pod.path).body
    except Refused as error:
        if error.later:
            return True
        if error.status != 404:
            raise
        return False
    return _mapping(told, "metadata").get("uid") == pod.uid


def _pod(told: Mapping[str, Any]) -> Pod:
    about = _mapping(told, "metadata")
    owners = about.get("ownerReferences")
    listed = [it for it in owners if isinstance(it, dict)] if isinstance(owners, list) else []
    kinds = [str(it.get("kind")) for it in listed if it.get("controller")]
    left = ""
    if MIRROR in _mapping(about, "annotations"):
        left = "a mirror pod"
    elif "DaemonSet" in kinds:
        left = "of a DaemonSet"
    elif _mapping(told, "status").get("phase") in ("Succeeded", "Failed"):
        left = "has ended"
    name, namespace = str(about.get("name") or ""), str(about.get("namespace") or "")
    if not name or not namespace:
        raise NotDrained("the API server named a pod without a name")
    return Pod(namespace, name, str(about.get("uid") or ""), left, alone=not kinds)


def _mapping(told: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = told.get(key)
    return found if isinstance(found, dict) else {}


def _named(found: list[Pod]) -> str:
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(map(str, found[:NAMED])) + more
