"""Where the agent listens: its two places, opened at the start and moved when the settings change."""

from __future__ import annotations

from zombiescope.agent.output import Output
from zombiescope.agent.serving import Server
from zombiescope.agent.settings import Settings, address
from zombiescope.core import UserError

PLACES = (("all", "listen"), ("metrics", "metrics_listen"))


def listen(server: Server, settings: Settings, out: Output) -> None:
    """At the start: a port that cannot be had is an error."""
    for place, key in PLACES:
        text = getattr(settings, key)
        if text:
            bound = server.listen(place, *address(text, key))
            out.log(f"listens on http://{bound}/" + ("metrics" if place == "metrics" else ""))


def listen_anew(server: Server, old: Settings, new: Settings, out: Output) -> None:
    """What cannot be had now is logged: the rest goes on."""
    for place, key in PLACES:
        if getattr(old, key) == getattr(new, key):
            continue
        server.close(place)
        if getattr(new, key):
            try:
                out.log(f"listens on http://{server.listen(place, *address(getattr(new, key), key))}/")
            except UserError as error:
                out.log(str(error), "error")
