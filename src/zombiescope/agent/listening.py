"""Where the agent listens: its two places, opened at the start and moved when the settings change."""

from __future__ import annotations

from zombiescope.agent import tls
from zombiescope.agent.output import Output
from zombiescope.agent.serving import Server
from zombiescope.agent.settings import Settings, address
from zombiescope.core import UserError

PLACES = (("all", "listen"), ("metrics", "metrics_listen"))


def listen(server: Server, settings: Settings, out: Output) -> None:
    """At the start: a port that cannot be had is an error."""
    for place, key in PLACES:
        if getattr(settings, key):
            _open(server, settings, place, key, out)


def listen_anew(server: Server, old: Settings, new: Settings, out: Output) -> None:
    """What cannot be had now is logged: the rest goes on. Certificates of the same name may be others by now."""
    for place, key in PLACES:
        try:
            if getattr(old, key) == getattr(new, key) and bool(old.tls_cert_file) == bool(new.tls_cert_file):
                server.secure(place, _certificates(new, place))
                continue
            server.close(place)
            if getattr(new, key):
                _open(server, new, place, key, out)
        except UserError as error:
            out.log(str(error), "error")


def _open(server: Server, settings: Settings, place: str, key: str, out: Output) -> None:
    bound = server.listen(place, *address(getattr(settings, key), key), _certificates(settings, place))
    out.log(f"listens on {bound}" + ("metrics" if place == "metrics" else ""))


def _certificates(settings: Settings, place: str) -> tls.Certificates | None:
    """Metrics are for anybody: nobody is asked for a certificate there."""
    return tls.for_clients(settings, asks=place == "all")
