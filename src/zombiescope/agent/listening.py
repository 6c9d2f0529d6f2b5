"""Where the agent listens: its socket and its two ports, opened at the start and moved when the settings change."""

from __future__ import annotations

from zombiescope.agent import local_socket, tls
from zombiescope.agent.access import METRICS, SOCKET, Access
from zombiescope.agent.listeners import WAITING, Listeners
from zombiescope.agent.output import Output
from zombiescope.agent.settings import Settings, address
from zombiescope.core import UserError

PLACES = (("all", "listen"), (METRICS, "metrics_listen"))


def listen(listeners: Listeners, settings: Settings, access: Access, out: Output) -> None:
    """At the start: a port that cannot be had is an error."""
    _listen_locally(listeners, access, out)
    for place, key in PLACES:
        if getattr(settings, key):
            _open(listeners, settings, place, key, out)
    access.tell()


def listen_anew(listeners: Listeners, old: Settings, new: Settings, access: Access, out: Output) -> None:
    """What cannot be had now is logged: the rest goes on. Certificates of the same name may be others by now."""
    for place, key in PLACES:
        try:
            if getattr(old, key) == getattr(new, key) and bool(old.tls_cert_file) == bool(new.tls_cert_file):
                listeners.secure(place, _certificates(new, place))
                continue
            listeners.close(place)
            if getattr(new, key):
                _open(listeners, new, place, key, out)
        except UserError as error:
            out.log(str(error), "error")
    access.tell()


def _listen_locally(listeners: Listeners, access: Access, out: Output) -> None:
    """By the socket in DIR/agent. Where there can be none, as on some file systems, the rest goes on."""
    path = f"{access.path}/{local_socket.NAME}"
    try:
        listeners.take(SOCKET, local_socket.listening(access.folder, WAITING))
    except OSError as error:
        out.log(f"{path}: cannot listen there: {(error.strerror or str(error)).lower()}", "error")
    else:
        out.log(f"listens on {path}, for root and its own user alone")


def _open(listeners: Listeners, settings: Settings, place: str, key: str, out: Output) -> None:
    bound = listeners.listen(place, *address(getattr(settings, key), key), _certificates(settings, place))
    out.log(f"listens on {bound}" + ("metrics" if place == METRICS else ""))


def _certificates(settings: Settings, place: str) -> tls.Certificates | None:
    """Metrics are for anybody: nobody is asked for a certificate there."""
    return tls.for_clients(settings, asks=place == "all")
