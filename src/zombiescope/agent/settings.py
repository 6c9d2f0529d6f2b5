"""What the agent may be told: one shape for its flags and its file, checked before anything starts."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from zombiescope.agent.findings import HOLD
from zombiescope.agent.remedying import windows
from zombiescope.core import UserError
from zombiescope.kubernetes import node_report
from zombiescope.processes.opening import regular
from zombiescope.recorder.budget import default_share

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN_LENGTH = 16  # characters at least: 96 bits in base64
TOKEN_MOST = 4096  # bytes that are read of a token file
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:\s]*)):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations in seconds. Every name is a flag of `zombiescope agent` and a key of its file."""

    dir: str = "/var/lib/zombiescope"  # the recording, and what the agent keeps beside it
    host: str = ""  # in a container: where the node's root is mounted
    listen: str = "127.0.0.1:9479"  # everything, read-only; empty: no port at all
    metrics_listen: str = ""  # /metrics and /healthz alone, for anybody
    token_file: str = ""  # empty: a token that the agent makes for itself
    open_loopback: str = "off"  # on: no token on loopback, so every local user reads everything
    tls_cert_file: str = ""  # of the server; both addresses speak https then
    tls_key_file: str = ""
    tls_client_ca_file: str = ""  # clients of `listen` show a certificate that this authority signed
    textfile: str = ""  # folder of node_exporter's textfile collector
    per_core: str = "off"  # on: series for each core
    native_histograms: str = "off"  # on: for clients that take protocol buffers
    every: float = 60.0
    window: float = 600.0
    quiet: float = HOLD
    # Of one core, for all processes together: three fifths for the recorder, the rest for looks.
    budget: float = field(default_factory=lambda: default_share(os.cpu_count() or 1))
    hours: float = 12.0
    max_bytes: int = 2 * 10**9
    hz: int = 49
    bpf: str = "on"  # off: no eBPF programs
    webhook: str = ""
    webhook_token_file: str = ""
    alertmanager: str = ""
    pyroscope: str = ""  # base addresses of servers that get profiles
    parca: str = ""
    otlp: str = ""
    push_token_file: str = ""
    push_tenant: str = ""  # X-Scope-OrgID of Pyroscope
    post_ca_file: str = ""  # authority of the servers that get events and profiles; empty: those of this machine
    post_cert_file: str = ""  # what we show them
    post_key_file: str = ""
    ship: str = ""  # store of the fleet that gets this node's hours
    ship_labels: str = ""  # traits of this node: zone=us-east-1a,pool=train
    ship_clips: str = "off"  # on: with a small cut of the recording around what harmed most in an hour
    ship_token_file: str = ""
    kubernetes: str = "off"  # on: post conditions and events of this node
    kubeconfig: str = ""  # empty: the service account of the pod
    node_name: str = ""
    remediate: str = "off"  # on: apply safe plans, prove them, undo what is not proved
    remediate_per_day: int = 1
    remediate_blackout: str = ""  # times of day in which none begins, in UTC
    remediate_prove: float = 10.0  # minutes
    ledger: str = ""  # folder of the ledger of fixes; empty: that of `fix`
    log_format: str = ""  # text or json; empty: text on a terminal, else json
    set: tuple[str, ...] = ()  # MEMBER.CONST=VALUE, for recorder and examiner


def checked(settings: Settings) -> Settings:
    """The same with full paths; a UserError for what cannot work."""
    if settings.every > settings.window / 2:
        raise UserError("window: must be at least twice `every`, so that nothing falls between two looks")
    if settings.host and not os.path.isdir(settings.host):
        raise UserError(f"host: {settings.host}: no such folder")
    for key in ("listen", "metrics_listen"):
        if getattr(settings, key):
            address(getattr(settings, key), key)
    known = settings.token_file or settings.tls_client_ca_file  # who may read is known
    if settings.listen and address(settings.listen, "listen")[0] not in LOOPBACK and not known:
        raise UserError(
            f"listen: {settings.listen} can be reached from other machines: give token-file or tls-client-ca-file too, "
            "or serve only /metrics with metrics-listen"
        )
    if settings.open_loopback == "on" and known:
        raise UserError("open-loopback: token-file and tls-client-ca-file say otherwise: give one of them")
    for key in ("webhook", "alertmanager", "pyroscope", "parca", "otlp"):
        _check_url(getattr(settings, key), key)
    if settings.token_file:
        token(settings.token_file, "token-file")
    check_ship(settings.ship, settings.ship_labels)
    for key in ("webhook_token_file", "push_token_file", "ship_token_file"):
        if getattr(settings, key):
            token(getattr(settings, key), key.replace("_", "-"))
    if not re.fullmatch(r"[\w.*'()!-]{0,150}", settings.push_tenant, re.ASCII):
        raise UserError(f"push-tenant: {settings.push_tenant!r} is not a tenant's name")
    if settings.kubernetes == "on":
        node_report.checked(settings.kubeconfig, settings.node_name)
    windows(settings.remediate_blackout, "remediate-blackout")
    if settings.remediate == "on" and (settings.host or os.geteuid() != 0):
        raise UserError("remediate: needs root on the node itself, not in a container with `host`")
    if settings.textfile and not os.path.isdir(settings.textfile):
        raise UserError(f"textfile: {settings.textfile}: no such folder")
    return settings


def check_ship(url: str, labels: str) -> None:
    scheme, found, rest = url.partition("://")
    if scheme in ("http", "https"):
        _check_url(url, "ship")
    elif url and not (found and rest and scheme in ("file", "s3", "gs", "az")):
        raise UserError(f"ship: {url!r} is not s3://BUCKET/PREFIX, file:///PATH or https://COLLECTOR")
    if odd := [it for it in labels.split(",") if it.strip() and not re.fullmatch(r"\s*[^=\s]+=[^=]*", it)]:
        raise UserError(f"ship-labels: {odd[0]!r} is not KEY=VALUE")


def address(text: str, key: str) -> tuple[str, int]:
    """HOST:PORT or [IPv6]:PORT."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise UserError(f"{key}: {text!r} is not HOST:PORT, such as 127.0.0.1:9479 or [::1]:9479")
    return found["six"] or found["host"] or "0.0.0.0", int(found["port"])


def token(path: str, key: str) -> str:
    """A secret that only its owner can read. Never a FIFO or a device, never more than it can be."""
    try:
        handle = regular(path)
    except OSError as error:
        raise UserError(f"{key}: {path}: {(error.strerror or str(error)).lower()}") from error
    try:
        return secret(handle, f"{key}: {path}")
    finally:
        os.close(handle)


def secret(handle: int, where: str) -> str:
    """The word in an open file, which has to be private."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{where}: not a regular file")
    if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
        raise UserError(f"{where}: others can read or own it: chown it to the agent's user, and chmod 600")
    text = os.read(handle, TOKEN_MOST).decode("ascii", "replace").strip()
    if len(text) < TOKEN_LENGTH or not text.isprintable() or not text.isascii() or " " in text:
        raise UserError(f"{where}: needs one word of {TOKEN_LENGTH} or more printable ASCII characters")
    return text


def _check_url(url: str, key: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise UserError(f"{key}: {url!r} is not an http:// or https:// address")
    if parts.username is not None:
        raise UserError(f"{key}: a password does not belong in an address: use webhook-token-file or push-token-file")
