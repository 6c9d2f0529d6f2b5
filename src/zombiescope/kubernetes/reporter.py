"""Posts a node's conditions and events from a thread of its own: a server that is away or slow holds up nothing.

Conditions: the newest wins. A new state is posted at once, a message that only changed its figures with the next
heartbeat. Events: one object for each finding, a few at once and one a minute after that; what waits is bounded.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from zombiescope.kubernetes import events
from zombiescope.kubernetes.client import Client, Refused
from zombiescope.kubernetes.conditions import Condition
from zombiescope.kubernetes.pausing import Pausing
from zombiescope.kubernetes.pod_owners import PodOwners

HEARTBEAT = 300.0  # seconds, as node-problem-detector has it: a fifth of a request a minute
APART = 10.0  # seconds between two patches of conditions, whatever happens
BURST, REFILL = 10.0, 60.0  # events at once, and seconds for one more
WAITING = 50  # events that wait; the oldest is given up first, and counted
SKEWED = 60.0  # seconds between the server's clock and ours that are worth a line
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
Log = Callable[[str, str], None]  # what is said, and its level


class _Lane:
    """Conditions and events are refused apart: a missing right to one of them does not hold up the other."""

    def __init__(self, what: str, log: Log) -> None:
        self.trouble, self.not_before = "", 0.0
        self._what, self._log, self._pausing = what, log, Pausing()

    def attempt(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Refused as error:
            self.not_before = time.monotonic() + self._pausing.failed(error.pause)
            if str(error) != self.trouble:
                rights = "; does the service account have its role?" if error.status == 403 else ""
                self._log(f"{self._what} could not be posted: {error}{rights}; it is tried again", "warning")
            self.trouble = str(error)
            return
        if self.trouble:
            self._log(f"{self._what}: the API server takes them again", "info")
        self.trouble, self.not_before = "", 0.0
        self._pausing.worked()


class Reporter:
    """One node. `lost` counts events that were given up."""

    def __init__(self, client: Client, node: str, log: Log) -> None:
        self._client, self._node, self._log = client, node, log
        self._path = f"/api/v1/nodes/{node}"
        self.lost = 0
        self._wanted: tuple[Condition, ...] = ()
        self._posted: tuple[Condition, ...] = ()
        self._posted_at = float("-inf")
        self._since: dict[str, tuple[str, str]] | None = None  # by type: status and since when; None: not asked yet
        self._events: dict[str, dict[str, Any]] = {}  # what waits, by name
        self._counts: dict[str, int] = {}  # of events that are on the server, by name
        self._pods: dict[str, str] = {}  # namespace/name of the pod that an event is about, by the event's name
        self._owners = PodOwners(client)
        self._allowed, self._allowed_at = BURST, time.monotonic()
        self._beat = HEARTBEAT
        self._on_node, self._on_events = _Lane("node conditions", log), _Lane("events", log)
        self._skewed, self._not_taken = False, ""
        self._changed = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def tell(self, conditions: Sequence[Condition]) -> None:
        with self._changed:
            self._wanted = tuple(conditions)
            self._changed.notify()

    def event(self, event: dict[str, Any], pod: str = "") -> None:
        """A later one of the same name replaces what still waits. What made its `pod` is asked before it is sent."""
        with self._changed:
            self._pods[event["metadata"]["name"]] = pod
            self._events.pop(event["metadata"]["name"], None)
            while len(self._events) >= WAITING:
                self._pods.pop(first := next(iter(self._events)), None)
                del self._events[first]
                self.lost += 1
            self._events[event["metadata"]["name"]] = event
            self._changed.notify()

    def forget(self, name: str) -> None:
        """A finding that ended is not counted up again."""
        with self._changed:
            self._counts.pop(name, None)

    def close(self, last: Sequence[Condition], patience: float) -> None:
        """One more try to say that nobody looks any more, for so long at most."""
        with self._changed:
            self._wanted, self._ends = tuple(last), True
            self._changed.notify()
        self._thread.join(patience)
        self.lost += len(self._events)

    @property
    def trouble(self) -> str:
        """Why the last request failed."""
        return self._on_node.trouble or self._on_events.trouble

    # The thread

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ends and min(self._waits(time.monotonic())) > 0:
                    self._changed.wait(min(self._waits(time.monotonic())))
                ends, wanted, node_waits = self._ends, self._wanted, self._waits(time.monotonic())[0]
            if wanted and (ends or node_waits <= 0):
                self._on_node.attempt(partial(self._patch, wanted))
            if ends:
                return
            if self._waits(time.monotonic())[1] <= 0:
                self._on_events.attempt(self._post_one)

    def _waits(self, now: float) -> tuple[float, float]:
        """Seconds until conditions, and events, are to be posted; at most some minutes."""
        tokens = (1.0 - self._tokens(now)) * REFILL if self._events else HEARTBEAT
        return max(self._due(now), self._on_node.not_before - now), max(tokens, self._on_events.not_before - now)

    def _due(self, now: float) -> float:
        if not self._wanted:
            return HEARTBEAT
        posted = {it.type: it for it in self._posted}
        same = all(it.type in posted and it.same_state(posted[it.type]) for it in self._wanted)
        return self._posted_at + (self._beat if same else APART) - now

    def _ask(self) -> None:
        """What the node says already: a state that goes on keeps the time at which it began."""
        found = self._client.get(self._path)
        self._compare_clocks(found.date)
        told = found.body.get("status", {})
        listed = told.get("conditions") if isinstance(told, dict) else None
        self._since = {
            str(it.get("type")): (str(it.get("status")), str(it.get("lastTransitionTime")))
            for it in (listed if isinstance(listed, list) else ())
            if isinstance(it, dict) and _MOMENT.fullmatch(str(it.get("lastTransitionTime")))
        }

    def _patch(self, wanted: tuple[Condition, ...]) -> None:
        if self._since is None:
            self._ask()
        now = events.moment(time.time())
        since = dict(self._since or {})
        for it in wanted:
            if since.get(it.type, ("", ""))[0] != it.status:
                since[it.type] = (it.status, now)
        told = [
            {
                "type": it.type,
                "status": it.status,
                "reason": it.reason,
                "message": it.message,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since[it.type][1],
            }
            for it in wanted
        ]
        self._compare_clocks(self._client.patch(f"{self._path}/status", {"status": {"conditions": told}}).date)
        self._since, self._posted, self._posted_at = since, wanted, time.monotonic()
        self._beat = HEARTBEAT * random.uniform(0.9, 1.1)  # not all nodes at the same moment

    def _post_one(self) -> None:
        with self._changed:
            name = next(iter(self._events))
            event, pod = self._events.pop(name), self._pods.pop(name, "")
        made = self._owners.of(pod) if pod else ""
        try:
            self._count(name, event | {"message": events.with_owner(event["message"], made)})
        except Refused as error:
            if error.later or error.denied:
                self._put_back(name, event, pod)
                raise
            self.lost += 1  # it will not be taken, however often it is sent
            if str(error) != self._not_taken:
                self._log(f"an event was not taken: {error}", "warning")
            self._not_taken = str(error)
        now = time.monotonic()
        self._allowed, self._allowed_at = self._tokens(now) - 1.0, now

    def _put_back(self, name: str, event: dict[str, Any], pod: str) -> None:
        """First in line again, unless a newer one of the same name waits, or there is no room any more."""
        with self._changed:
            if name in self._events:
                return
            if len(self._events) >= WAITING:
                self.lost += 1
            else:
                self._events, self._pods[name] = {name: event, **self._events}, pod

    def _count(self, name: str, event: dict[str, Any]) -> None:
        """Created, or counted up: events expire on the server after an hour, and may be there from before a restart."""
        path = f"{events.PATH}/{name}"
        if name not in self._counts:
            try:
                self._client.create(events.PATH, event)
                self._counts[name] = 1
                return
            except Refused as error:
                if error.reason != "AlreadyExists":
                    raise
            # Reading events is not ours to ask for; the answer to a patch says the count as well.
            said = self._client.patch(path, {"lastTimestamp": event["lastTimestamp"]}).body.get("count")
            self._counts[name] = said if isinstance(said, int) and 0 < said < 10**6 else 1
        count = self._counts[name] + 1
        try:
            self._client.patch(path, events.again(event, count, time.time()))
        except Refused as error:
            if error.status != 404:
                raise
            self._client.create(events.PATH, event | {"count": count})
        self._counts[name] = count

    def _tokens(self, now: float) -> float:
        return min(self._allowed + (now - self._allowed_at) / REFILL, BURST)

    def _compare_clocks(self, date: float) -> None:
        skewed = date > 0 and abs(date - time.time()) > SKEWED
        if skewed and not self._skewed:
            self._log(f"the API server's clock differs from this node's by {date - time.time():+.0f} s", "warning")
        self._skewed = skewed
