"""Events of a node, as core/v1 has them: one object for each finding, counted up while it goes on.

Events of nodes belong into the namespace `default`, and an event's object into the namespace of what it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zombiescope.kubernetes.conditions import camel_case, cut, message

PATH = "/api/v1/namespaces/default/events"
COMPONENT = "zombiescope"
LONGEST = 1024  # characters of a message: newer servers refuse more
LONGEST_NAME = 253  # of any object


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name(node: str, found: Mapping[str, Any], *, ended: bool) -> str:
    """The same for the same finding, so that an agent that starts anew counts on instead of beginning again."""
    end = f".{found['id']}" + (".ended" if ended else "")
    return node[: LONGEST_NAME - len(end)].rstrip(".-") + end


def body(node: str, found: Mapping[str, Any], now: float, *, ended: bool) -> dict[str, Any]:
    sign = camel_case(found["sign"])
    chain = " → ".join(it["sign"] for it in found["chain"])
    more = (f"; chain: {chain}" if len(found["chain"]) > 1 else "") if not ended else ""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name(node, found, ended=ended), "namespace": "default"},
        # The uid is the name, as the kubelet has it: kubectl describe looks for that.
        "involvedObject": {"kind": "Node", "name": node, "uid": node, "apiVersion": "v1"},
        "reason": f"{sign}Ended" if ended else sign,
        "message": ("ended: " if ended else "") + message(node, found, more, LONGEST - 7),
        "type": "Normal" if ended else "Warning",
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "firstTimestamp": moment(min(float(found["began"]), now)),
        "lastTimestamp": moment(now),
        "count": 1,
    }


def with_owner(message: str, made: str) -> str:
    """With what made the pod it is about, if that is known, before the command to look further."""
    words, see, command = message.rpartition("; see: ")
    end = f"; owner: {made}{see}{command}"
    return cut(words, max(LONGEST - 7 - len(end), 20)) + end if made else message


def again(event: Mapping[str, Any], count: int, now: float) -> dict[str, Any]:
    """The patch of an event that was seen once more."""
    return {"count": count, "lastTimestamp": moment(now), "message": event["message"]}
