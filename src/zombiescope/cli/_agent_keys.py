"""The agent's settings, each both a flag and a key of its file: one table, so that neither lacks what the other has."""

from __future__ import annotations

import argparse
import dataclasses
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zombiescope.agent import tls
from zombiescope.agent.settings import Settings, checked
from zombiescope.agent.thresholds import why_not
from zombiescope.cli._looking import duration, hertz
from zombiescope.cli._parser import did_you_mean
from zombiescope.cli.record import _bytes as size
from zombiescope.core import UserError
from zombiescope.processes.opening import regular

MOST_FILE = 1 << 20  # bytes of a configuration file


def share(text: str) -> float:
    """1% or 0.01, of one core."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0.0005 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share of one core from 0.05% to 100%")
    return value


def path(text: str) -> str:
    return os.path.abspath(text) if text else ""


def style(text: str) -> str:
    if text not in ("text", "json", ""):
        raise argparse.ArgumentTypeError(f"{text!r} is neither text nor json")
    return text


def switch(text: str) -> str:
    if text not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither on nor off")
    return text


def few(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:4]) <= 10:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 10")
    return int(text)


@dataclass(frozen=True, slots=True)
class Key:
    read: Callable[[str], Any]
    metavar: str
    says: str


KEYS: dict[str, Key] = {
    "dir": Key(path, "DIR", "folder of the recording and the events [/var/lib/zombiescope]"),
    "host": Key(
        path, "PATH", "in a container: the folder where the node's root is mounted, such as /host [this machine]"
    ),
    "listen": Key(
        str,
        "HOST:PORT",
        "serve everything here; beyond loopback with token-file or tls-client-ca-file; '' for no port [127.0.0.1:9479]",
    ),
    "metrics_listen": Key(str, "HOST:PORT", "serve /metrics and /healthz alone here, without a token [none]"),
    "token_file": Key(
        path, "FILE", "the word that clients of --listen must know; mode 0600 [one it makes: DIR/agent/token]"
    ),
    "open_loopback": Key(switch, "on|off", "no token on loopback: every user of this machine reads everything [off]"),
    "tls_cert_file": Key(
        path, "FILE", "serve https with this certificate (PEM), renewed when the file is [none: http]"
    ),
    "tls_key_file": Key(path, "FILE", "and this key; mode 0600 [none]"),
    "tls_client_ca_file": Key(path, "FILE", "clients of --listen need a certificate of this authority (mTLS) [none]"),
    "textfile": Key(path, "DIR", "also write the metrics here, for node_exporter's textfile collector [none]"),
    "per_core": Key(switch, "on|off", "metrics of each core too: two series a core [off]"),
    "native_histograms": Key(switch, "on|off", "native histograms for a Prometheus that asks for them [off]"),
    "every": Key(duration("seconds", 3600.0), "T", "time between looks; longer if they cost too much [60s]"),
    "window": Key(duration("seconds", 6 * 3600.0), "T", "how far back each look goes [10m]"),
    "quiet": Key(duration("seconds", 3600.0), "T", "a finding ends once it was not seen for so long [5m]"),
    "budget": Key(share, "SHARE", "CPU for all processes together, of one core [1%%; beyond 48 cores 0.02%% of each]"),
    "hours": Key(duration("hours", 1e5), "T", "how much the recorder keeps: hours, or 90m, 2d [12]"),
    "max_bytes": Key(size, "B", "size limit of the recording [2G]"),
    "hz": Key(hertz, "F", "stack samples per second on each core, 0 for none [49]"),
    "bpf": Key(switch, "on|off", "eBPF programs that time softirqs, interrupts and network polls [on]"),
    "webhook": Key(str, "URL", "post each event here as JSON [none]"),
    "webhook_token_file": Key(path, "FILE", "send this word as bearer token to the webhook; mode 0600 [none]"),
    "alertmanager": Key(str, "URL", "tell this Alertmanager (v2) what goes on [none]"),
    "pyroscope": Key(str, "URL", "push profiles to this Pyroscope, such as http://pyroscope:4040 [none]"),
    "parca": Key(str, "URL", "push profiles to this Parca, such as http://parca:7070 [none]"),
    "otlp": Key(str, "URL", "push profiles to this OTLP receiver (HTTP), such as http://collector:4318 [none]"),
    "push_token_file": Key(path, "FILE", "send this word as bearer token with each push; mode 0600 [none]"),
    "push_tenant": Key(str, "NAME", "tenant of Pyroscope (X-Scope-OrgID) [none]"),
    "post_ca_file": Key(path, "FILE", "the one authority that signed the https servers we post to [this machine's]"),
    "post_cert_file": Key(path, "FILE", "certificate (PEM) to show to the servers we post to (mTLS) [none]"),
    "post_key_file": Key(path, "FILE", "and its key; mode 0600 [none]"),
    "ship": Key(str, "URL", "send each hour to a fleet's store: s3://…, file:///… or https://COLLECTOR [none]"),
    "ship_labels": Key(str, "K=V,…", "traits of this node for the fleet, such as zone=us-east-1a,pool=train [none]"),
    "ship_clips": Key(switch, "on|off", "with each hour a cut of the recording around what harmed most, 1 MB [off]"),
    "ship_token_file": Key(path, "FILE", "send this word as bearer token to a collector; mode 0600 [none]"),
    "kubernetes": Key(switch, "on|off", "post conditions and events of this node to the Kubernetes API [off]"),
    "kubeconfig": Key(path, "FILE", "how to reach that API [the service account of the pod]"),
    "node_name": Key(str, "NAME", "this node's name there [$NODE_NAME, else the host name]"),
    "remediate": Key(switch, "on|off", "fix root causes by itself, by safe plans alone; undo what is not proved [off]"),
    "remediate_per_day": Key(few, "N", "fixes that it begins within a day, from 1 to 10 [1]"),
    "remediate_blackout": Key(str, "HH:MM-HH:MM", "times of day (UTC) in which it begins none, by commas [none]"),
    "remediate_prove": Key(
        duration("minutes", 24 * 60.0), "T", "how long each fix is checked: minutes, or 90s, 10m [10]"
    ),
    "ledger": Key(path, "DIR", "folder of the ledger of fixes [/var/lib/zombiescope]"),
    "log_format": Key(style, "text|json", "form of the log and of events [text on a terminal, else json]"),
}


def add_keys(parser: argparse.ArgumentParser) -> None:
    for name, key in KEYS.items():
        alone = {"nargs": "?", "const": "on"} if key.read is switch else {}  # --remediate alone means on
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=key.read, metavar=key.metavar, help=key.says, **alone)  # type: ignore[arg-type]


def settings_of(file: str, flags: Mapping[str, Any], chosen: tuple[str, ...]) -> Settings:
    """Defaults, then the file, then the flags."""
    found = _from_file(file) if file else {}
    found |= {name: value for name, value in flags.items() if name in KEYS and value is not None}
    found["set"] = (*found.get("set", ()), *chosen)
    if why := why_not(found["set"]):
        raise UserError(why)
    settings = checked(dataclasses.replace(Settings(), **found))
    tls.check(settings)
    return settings


def _from_file(file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _read(file).items():
        key = name.replace("-", "_")
        if key == "set":
            if not isinstance(value, list) or not all(isinstance(it, str) for it in value):
                raise UserError(f'{file}: set: a list such as ["saturated_core.FULL=0.8"]')
            found[key] = tuple(value)
            continue
        if key not in KEYS:
            meant = did_you_mean([key], KEYS) or f"; there are {', '.join([*KEYS, 'set'])}"
            raise UserError(f"{file}: no such key: {name}{meant}")
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise UserError(f"{file}: {name}: neither a text nor a number")
        try:
            found[key] = KEYS[key].read(str(value))
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{file}: {name}: {error}") from None
    return found


def _read(file: str) -> dict[str, Any]:
    try:
        with open(regular(file), "rb") as opened:
            return tomllib.loads(opened.read(MOST_FILE).decode())
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: not TOML: {error}") from error
