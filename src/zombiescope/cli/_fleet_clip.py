"""`fleet clip`: what a node sent of its worst moment, as a recording on this machine."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from zombiescope.cli._fleet_answers import opened_fleet
from zombiescope.cli._fleet_out import write
from zombiescope.core import UserError, harmless
from zombiescope.outputs._exit_codes import CLEAR


def clip(args: argparse.Namespace) -> int:
    from zombiescope.fleet.clip import unpack

    rows = opened_fleet(args).rows(
        "SELECT content, reason, epoch(started) FROM clips JOIN nodes USING (node_id) WHERE name = ? "
        "AND content IS NOT NULL ORDER BY started DESC LIMIT 1",
        [args.node],
    )
    if not rows:
        raise UserError(f"{harmless(args.node)}: it sent no clip in this range: see `ship-clips` of the agent")
    content, reason, started = rows[0]
    folder = args.into or f"{args.node}.zombiescope"
    unpack(bytes(content), folder)
    shape = {
        "folder": folder,
        "from": datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "reason": harmless(reason or "", most=400),
    }
    write(args.format, shape, tuple(shape), [tuple(shape.values())])
    return CLEAR
