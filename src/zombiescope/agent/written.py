"""The metrics as text: for /metrics, written when asked for and kept for a moment; and as a file for node_exporter."""

from __future__ import annotations

import time
from collections.abc import Callable

from zombiescope.agent import textfile
from zombiescope.agent.exposition import TEXT
from zombiescope.agent.families import families
from zombiescope.agent.forms import in_form
from zombiescope.agent.metrics import Metrics, Own
from zombiescope.agent.output import Output
from zombiescope.agent.settings import Settings

KEPT = 1.0  # seconds for which it is served again


class Written:
    """`own`: what the agent says of itself."""

    def __init__(self, metrics: Metrics, own: Callable[[], Own]) -> None:
        self._metrics, self._own = metrics, own
        self._kept: dict[str, tuple[float, bytes]] = {}

    def text(self, form: str, settings: Settings) -> bytes:
        at, content = self._kept.get(form, (float("-inf"), b""))
        if time.monotonic() - at > KEPT:
            every = families(self._metrics, self._own(), per_core=settings.per_core == "on")
            content = in_form(every, form)
            self._kept[form] = (time.monotonic(), content)
        return content

    def looked(self, settings: Settings, out: Output) -> None:
        """There is something new."""
        self._kept.clear()
        if settings.textfile and (why := textfile.write(settings.textfile, self.text(TEXT, settings))):
            out.log(why, "error")
