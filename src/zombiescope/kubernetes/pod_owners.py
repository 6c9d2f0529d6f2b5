"""What a pod is of, as the API server says it, where we may ask: it does not follow from the node's own files.

Whether we may is asked first: a refusal for each finding would fill the server's audit log. What was learnt is kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from zombiescope.core import harmless
from zombiescope.kubernetes.client import Client, Refused

MAY_WE = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
HASH = "pod-template-hash"  # the label that a Deployment's controller gives its ReplicaSets and their pods
MOST = 200  # pods that are remembered
AGAIN = 600.0  # seconds after which it is asked again whether we may: a role may be given later


class PodOwners:
    """One server; for one thread."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._allowed: bool | None = None
        self._refused_at = 0.0
        self.known: dict[str, str] = {}  # by namespace/name

    def of(self, pod: str) -> str:
        """`Deployment web`; empty if there is none, or nobody may know."""
        if pod in self.known or not self._may():
            return self.known.get(pod, "")
        namespace, _, name = pod.partition("/")
        try:
            found = self._client.get(f"/api/v1/namespaces/{namespace}/pods/{name}").body
        except Refused as error:
            if error.later:
                return ""
            found = {}  # it is gone
        while len(self.known) >= MOST:
            del self.known[next(iter(self.known))]
        self.known[pod] = owner(found)
        return self.known[pod]

    def _may(self) -> bool:
        if self._allowed is None or (not self._allowed and time.monotonic() - self._refused_at > AGAIN):
            asked = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
            try:
                answer = self._client.create(
                    MAY_WE, {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", **asked}
                )
                status = answer.body.get("status")
                self._allowed = isinstance(status, dict) and status.get("allowed") is True
            except Refused as error:
                self._allowed = None if error.later else False
            self._refused_at = time.monotonic()
        return bool(self._allowed)


def owner(pod: Mapping[str, Any]) -> str:
    """Of its controller. A ReplicaSet that a Deployment made is named after it, with the hash of the pods' template."""
    about = pod.get("metadata")
    about = about if isinstance(about, dict) else {}
    listed, labels = about.get("ownerReferences"), about.get("labels")
    for it in listed if isinstance(listed, list) else ():
        if isinstance(it, dict) and it.get("controller") is True:
            kind, name = str(it.get("kind", "")), str(it.get("name", ""))
            end = f"-{labels.get(HASH)}" if isinstance(labels, dict) and labels.get(HASH) else ""
            if kind == "ReplicaSet" and end and name.endswith(end):
                kind, name = "Deployment", name.removesuffix(end)
            return harmless(f"{kind} {name}", most=300)
    return ""
