"""From looks to events: followed from one to the next, kept on disk, then sent to those who listen."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from zombiescope import __version__
from zombiescope.agent.event_log import EventLog
from zombiescope.agent.findings import Followed
from zombiescope.agent.output import Output
from zombiescope.agent.posting import Alerts, Poster
from zombiescope.agent.settings import Settings, token
from zombiescope.agent.tls import POSTED_WITH, for_servers
from zombiescope.kubernetes.node_report import NodeReport

NEWEST = 500  # events kept in memory, for /events
SCHEMA = 1
# Settings that decide when events end, where they are posted, and how.
POSTS = (
    *("quiet", "webhook", "webhook_token_file", "alertmanager"),
    *("kubernetes", "kubeconfig", "node_name", *POSTED_WITH),
)


class Events:
    """What goes on survives a restart: it is read from the log."""

    def __init__(self, settings: Settings, out: Output) -> None:
        self._log = EventLog(settings.dir)
        self._followed = Followed()
        self._followed.restore(self._log.events)
        self.newest = self._log.events[-NEWEST:]
        self.counts = {"began": 0, "changed": 0, "ended": 0}
        self._node_report = NodeReport(out.log)
        self._out, self._webhook, self._alerts = out, None, None  # type: tuple[Output, Poster | None, Alerts | None]

    @property
    def going_on(self) -> list[dict[str, Any]]:
        return [it.told for it in self._followed.open.values()]

    @property
    def lost(self) -> dict[str, int]:
        """What a target did not take, by target."""
        found = {"stdout": self._out.dropped} if self._out.dropped else {}
        if self._webhook is not None:
            found["webhook"] = self._webhook.lost
        if self._alerts is not None:
            found["alertmanager"] = self._alerts.poster.lost
        return found | self._node_report.lost

    def looked(self, look: Mapping[str, Any], node: str) -> None:
        for event in self._followed.update(look, time.time()):
            self._tell(event | {"node": node, "zombiescope": __version__, "schema": SCHEMA})
        self._node_report.looked(look["states"], self.going_on)

    def _tell(self, event: dict[str, Any]) -> None:
        """Disk first: what anybody hears of is still there after a crash."""
        try:
            event = self._log.append(event, self.going_on)
        except OSError as error:
            self._out.log(f"{self._log.path}: an event could not be kept: {error}", "error")
        self.counts[event["event"]] += 1
        self.newest = [*self.newest[-NEWEST + 1 :], event]
        self._out.event(event)
        if self._webhook is not None:
            self._webhook.put(json.dumps(event).encode(), event.get("seq", 0))
        if self._alerts is not None:
            self._alerts.heard(event)

    def connect(self, settings: Settings, node: str) -> None:
        self._followed.hold = settings.quiet
        secret = ""
        if settings.webhook_token_file:
            secret = token(settings.webhook_token_file, "webhook-token-file")
        certificates = for_servers(settings, settings.webhook, settings.alertmanager)
        self._webhook = None
        if settings.webhook:
            self._webhook = Poster(settings.webhook, secret, self._log.posted, certificates=certificates)
            for event in self._log.not_posted():
                self._webhook.put(json.dumps(event).encode(), event["seq"])
        self._alerts = Alerts(settings.alertmanager, node, certificates) if settings.alertmanager else None
        self._node_report.use(settings.kubernetes == "on", settings.kubeconfig, settings.node_name, settings.window)

    def disconnect(self, patience: float) -> None:
        """Without patience it is followed by `connect`, after which the cluster may still hear the same."""
        if patience:
            self._node_report.close(patience)
        for poster in (self._webhook, self._alerts.poster if self._alerts else None):
            if poster is not None:
                poster.close(patience)

    def tick(self, now: float) -> float:
        """Repeat to Alertmanager what goes on, when it is time; seconds until it is."""
        told = {"webhook": self._webhook, "alertmanager": self._alerts.poster if self._alerts else None}
        for name, poster in told.items():
            if poster is not None and (news := poster.news()):
                self._out.log(f"{name} {news}", "warning")
        waits = self._node_report.tick(now)
        if self._alerts is None:
            return waits
        self._alerts.repeat(self.going_on, now)
        return min(self._alerts.due - now, waits)

    def close(self) -> None:
        self._log.close()
