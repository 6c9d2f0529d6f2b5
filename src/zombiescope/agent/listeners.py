"""Where the server listens: sockets that take connections at a pace, and rest while there is no descriptor for one."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Callable

from zombiescope.agent.connection import Connection, Secure
from zombiescope.agent.local_socket import known
from zombiescope.agent.pace import Pace, Paces
from zombiescope.agent.tls import Certificates
from zombiescope.core import UserError

WAITING = 64  # connections that the kernel holds for us, for each listener
# A connection that cannot be accepted stays in the queue, and the socket stays ready: without a rest the loop would
# turn as fast as it can, on a node that has run out of something already.
LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
REST = 1.0  # seconds
# TLS handshakes: a client pays 0.1 ms for one and we pay 1 ms, so that more than these would be a way to burn a core.
HANDSHAKES, EACH_SECOND = 64.0, 40.0
# Of one address: a browser opens six at once, and a scraper one in some seconds. One address gets a quarter of it all.
OWN_HANDSHAKES, OWN_EACH_SECOND = 16.0, 10.0
ADDRESSES = 1024  # that are remembered: 0.3 MB
NETWORK = 8  # bytes of an IPv6 address that say whose it is: a host has 2^64 of its own
Arrived = Callable[[str, str, Connection], None]  # the place, whose address, and the connection


class Listeners:
    """All of them, in a selector that belongs to the caller; call `tick` now and then."""

    def __init__(self, selector: selectors.BaseSelector, arrived: Arrived) -> None:
        self._selector, self._arrived = selector, arrived
        self._sockets: dict[str, socket.socket] = {}
        self._certificates: dict[str, Certificates | None] = {}
        self._handshakes = Pace(HANDSHAKES, EACH_SECOND)
        self._of_address = Paces(OWN_HANDSHAKES, OWN_EACH_SECOND, ADDRESSES)
        self._rests_until = 0.0  # 0: it takes connections
        self._lacks, self._said = "", ""

    def listen(self, place: str, host: str, port: int, certificates: Certificates | None = None) -> str:
        """Returns the address with the port that it got, as a URL."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
                listener.listen(WAITING)
            except OSError:
                listener.close()
                raise
        except OSError as error:
            raise UserError(f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}") from error
        self.take(place, listener, certificates)
        bound = listener.getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        return f"{'https' if certificates else 'http'}://{name}:{bound[1]}/"

    def take(self, place: str, listener: socket.socket, certificates: Certificates | None = None) -> None:
        """One that listens already."""
        self._sockets[place] = listener
        self.secure(place, certificates)
        if not self._rests_until:
            self._poll(place, listener)

    def secure(self, place: str, certificates: Certificates | None) -> None:
        """With these from now on; clients that are connected keep what they have."""
        self._certificates[place] = certificates

    def news(self) -> list[str]:
        """What to log: of certificates, and that connections have to wait."""
        said, self._said = self._said, self._lacks
        rests = f"connections wait, as there is no room for them: {self._lacks}" if self._lacks and not said else ""
        told = [it.news() for it in self._certificates.values() if it is not None]
        return [it for it in (rests, *told) if it]

    def close(self, place: str | None = None) -> None:
        """One, or all of them."""
        for name in [place] if place else list(self._sockets):
            listener = self._sockets.pop(name, None)
            if listener is not None:
                if not self._rests_until:
                    self._selector.unregister(listener)
                listener.close()

    def tick(self, now: float) -> float:
        """Listen again once the rest is over; seconds until it is."""
        if self._rests_until and now >= self._rests_until:
            self._rests_until = 0.0
            for place, listener in self._sockets.items():
                self._poll(place, listener)
        return self._rests_until - now if self._rests_until else 60.0

    def _poll(self, place: str, listener: socket.socket) -> None:
        self._selector.register(listener, selectors.EVENT_READ, lambda _: self._accept(place, listener))

    def _rest(self, why: str) -> None:
        self._lacks, self._rests_until = why, time.monotonic() + REST
        for listener in self._sockets.values():
            self._selector.unregister(listener)

    def _accept(self, place: str, listener: socket.socket) -> None:
        if self._rests_until:  # since this very round
            return
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno in LACKS:
                self._rest((error.strerror or str(error)).lower())
            return  # else it has gone again
        self._lacks = ""
        try:
            peer = _whose(accepted, address)
            connection = self._greeted(place, peer, accepted)
        except OSError:  # it has gone while it was wrapped
            connection = None
        if connection is None:
            accepted.close()
        else:
            self._arrived(place, peer, connection)

    def _greeted(self, place: str, peer: str, accepted: socket.socket) -> Connection | None:
        """None: it is hung up on."""
        if accepted.family == socket.AF_UNIX and not known(accepted):
            return None
        certificates = self._certificates[place]
        if certificates is None:
            return Connection(accepted)
        # Its own pace first: who is beyond that takes nothing from the others.
        if not self._of_address.allows(peer) or not self._handshakes.allows():
            return None
        return Secure(accepted, certificates.context())


def _whose(accepted: socket.socket, address: tuple[str, int] | str) -> str:
    """The name of who asks: its address, of IPv6 the network; empty for our own socket."""
    if accepted.family == socket.AF_UNIX:
        return ""
    host = address[0].partition("%")[0].removeprefix("::ffff:")
    return socket.inet_pton(socket.AF_INET6, host)[:NETWORK].hex() if ":" in host else host
