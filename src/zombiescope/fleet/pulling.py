"""Hours of nodes that are asked for them: `fleet gather HOST…`, over the agents' own address, with their token."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from urllib.parse import urlsplit

from zombiescope.core import UserError, harmless
from zombiescope.fleet.gather import Gathered
from zombiescope.fleet.hours import SECONDS, Hour, parcel_key
from zombiescope.fleet.parcel import MOST_PARCEL, Refused, head_of
from zombiescope.fleet.schemas import node_id
from zombiescope.fleet.store import Taking
from zombiescope.places.http_request import NoAnswer, asked

AT_ONCE = 16  # nodes
PORT = 9479  # where agents listen
TIMEOUT = 90.0  # seconds: an examiner on a busy node may take a minute for an hour
MOST_LIST = 1 << 16  # bytes
MOST_HOURS = 24 * 31  # that one node may offer
TRIES, PAUSE = 5, 5.0  # of a node that answers "later"; seconds between them
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})(?::\d{1,5})?")


def is_host(text: str) -> bool:
    """An address, or a name that is no folder here."""
    return text.startswith(("http://", "https://")) or (not os.path.exists(text) and bool(_HOST.fullmatch(text)))


def pull_all(
    store: Taking, hosts: Sequence[str], token: str, ca_file: str, say: Callable[[str], None]
) -> list[Gathered]:
    """Some at a time: most of the time is the nodes' own."""
    context = None
    if ca_file or any(it.startswith("https:") for it in hosts):
        try:
            context = ssl.create_default_context(cafile=ca_file or None)
        except OSError as error:  # SSLError too
            raise UserError(f"--ca-file {harmless(ca_file)}: {(error.strerror or str(error)).lower()}") from error
    done = []
    with ThreadPoolExecutor(AT_ONCE) as several:
        for one in several.map(lambda host: pull(store, host, token, context), hosts):
            say(f"{one.folder}: " + (one.why or f"{one.node}, {one.hours} hours"))
            done.append(one)
    return done


def pull(store: Taking, host: str, token: str, context: ssl.SSLContext | None) -> Gathered:
    """Each hour that the store has not. What is in it, the compactor checks; what goes wrong costs this node alone."""
    one = Gathered(harmless(host))
    try:
        url = _address(host, secure=context is not None)
        if token and url.startswith("http:") and _is_here(url):
            raise UserError(
                "a token is not sent to a port of this machine without TLS, as any user may have bound it: "
                "give the agent's folder instead, such as /var/lib/zombiescope"
            )
        agent = _Agent(url, token, context)
        name, hours = agent.hours()
        one.node = harmless(name)
        node = node_id(name)
        for hour in hours:
            if store.has(parcel_key(hour, node)):
                one.there += 1
                continue
            content = agent.asked(f"/fleet/parcel?hour={hour.start}", MOST_PARCEL)
            if content:
                head_of(content)
                one.hours += 1
                one.bytes += len(content)
                store.create(parcel_key(hour, node), content)
    except (UserError, Refused) as error:
        one.why = harmless(str(error))
    return one


def _address(host: str, *, secure: bool) -> str:
    if "://" in host:
        return host
    return f"http{'s' if secure else ''}://{host if ':' in host else f'{host}:{PORT}'}"


def _is_here(url: str) -> bool:
    """Whether it leads to loopback, by whatever name."""
    try:
        found = socket.getaddrinfo(urlsplit(url).hostname, None, type=socket.SOCK_STREAM)
        return any(ip_address(str(it[4][0]).partition("%")[0]).is_loopback for it in found)
    except (OSError, ValueError):
        return False  # then nothing can be sent either


class _Agent:
    def __init__(self, url: str, token: str, context: ssl.SSLContext | None) -> None:
        self._url, self._token, self._context = url.rstrip("/"), token, context

    def hours(self) -> tuple[str, list[Hour]]:
        try:
            said = json.loads(self.asked("/fleet/hours", MOST_LIST))
            hours = [Hour(int(it)) for it in said["hours"]]
            if len(hours) > MOST_HOURS or any(it.start % SECONDS or it.start < 0 for it in hours) or not said["node"]:
                raise ValueError("not hours")
            return str(said["node"])[:253], hours
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"its list of hours is not understood: {harmless(str(error), most=80)}") from error

    def asked(self, path: str, most: int) -> bytes:
        """Redirects are not followed."""
        for left in reversed(range(TRIES)):
            status, content = self._once(path, most)
            if status == 200:
                return content
            if status not in (429, 503) or not left:
                said = content[:200].decode("utf-8", "replace").strip()
                raise UserError(f"answered {status}: {harmless(said)}")
            time.sleep(PAUSE)
        raise AssertionError

    def _once(self, path: str, most: int) -> tuple[int, bytes]:
        where = urlsplit(self._url + path)
        try:
            answer = asked(where, token=self._token, context=self._context, timeout=TIMEOUT, most=most + 1)
        except NoAnswer as error:
            raise UserError(harmless(str(error), most=200)) from error
        if len(answer.content) > most:
            raise UserError(f"answered with more than {most:,} bytes")
        return answer.status, answer.content
