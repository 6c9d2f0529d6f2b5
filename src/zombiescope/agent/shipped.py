"""What the agent sends to a fleet's store, in the examiner: a round of shipping, or one hour for a client that asks."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from zombiescope.agent.folder import FOLDER
from zombiescope.agent.settings import Settings, token
from zombiescope.agent.tls import POSTED_WITH, for_servers
from zombiescope.core import UserError
from zombiescope.fleet.hour_parcel import SETTLES, hour_parcel, hours, labels_of, node_name
from zombiescope.fleet.hours import hour_of
from zombiescope.fleet.shipping import ship
from zombiescope.fleet.spool import Spool
from zombiescope.fleet.store import taking
from zombiescope.recorder.replay import opened

SPOOL = "ship"


def shipped(folder: str, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """One round, with what the agent is set to."""
    secret = token(asked["ship_token_file"], "ship-token-file") if asked["ship_token_file"] else ""
    files = {name: str(asked[name]) for name in POSTED_WITH}
    certificates = for_servers(dataclasses.replace(Settings(), **files), asked["store"])  # type: ignore[arg-type]
    store = taking(asked["store"], secret, certificates.context() if certificates else None)
    spool = Spool(os.path.join(folder, FOLDER, SPOOL))
    done = ship(
        opened(folder), spool, store, own_labels(asked["labels"]), time.time(), clips=asked["ship_clips"] == "on"
    )
    return dataclasses.asdict(done), b""


def parcel(folder: str, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """One hour that is over."""
    recording, hour = opened(folder), hour_of(asked["hour"])
    if hour not in hours(recording, time.time()):
        raise UserError(f"nothing is recorded of that hour, or it ended less than {SETTLES} s ago")
    return {}, hour_parcel(recording, hour, own_labels(asked["labels"]), clips=asked["clips"])


def listing(folder: str) -> tuple[dict[str, Any], bytes]:
    """Which node this is, and its hours that are over."""
    recording = opened(folder)
    over = [hour.start for hour in hours(recording, time.time())]
    return {}, json.dumps({"node": node_name(recording), "hours": over}).encode() + b"\n"


def own_labels(text: str) -> dict[str, str]:
    """`zone=us-east-1a,pool=train`."""
    return labels_of([it.strip() for it in text.split(",") if it.strip()], "ship-labels")
