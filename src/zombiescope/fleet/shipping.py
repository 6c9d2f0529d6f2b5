"""A node's hours on their way: each becomes a parcel when it is over, waits on the node's disk, and goes to the store.

Making and sending are apart: while the store is away the hours are made all the same, before the recording has
overwritten them. Killed at any moment, it goes on where it was; an hour that is sent twice counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zombiescope.core import UserError, harmless
from zombiescope.fleet.hour_parcel import hour_parcel, hours, node_name
from zombiescope.fleet.hours import hour_of, parcel_key
from zombiescope.fleet.schemas import node_id
from zombiescope.fleet.spool import Spool
from zombiescope.fleet.store import Taking, Unwanted
from zombiescope.recorder.replay import Recording

AT_ONCE = 3  # hours that one round makes: a node that was offline for long catches up in some rounds


@dataclass(slots=True)
class Shipped:
    made: int = 0
    sent: int = 0
    lost: int = 0  # given up: no room, or the store will never take it
    waiting: int = 0
    more: bool = False  # hours are left to be made
    why: str = ""  # the store did not take one


def ship(
    recording: Recording, spool: Spool, store: Taking, labels: Mapping[str, str], now: float, *, clips: bool = False
) -> Shipped:
    """One round. What the store does not take now waits for the next one."""
    done = Shipped()
    known = spool.known()
    for hour in hours(recording, now):
        if hour in known:
            continue
        if done.made == AT_ONCE:
            done.more = True
            break
        content = hour_parcel(recording, hour, labels, clips=clips)
        if content:
            done.lost += spool.put(hour, content)
        else:
            spool.done(hour, "sent")  # nothing was recorded in it
        done.made += 1
    spool.tidy(hour_of(recording.span.start))
    node = node_id(node_name(recording))
    for hour in spool.waiting():
        try:
            store.create(parcel_key(hour, node), spool.read(hour))
        except Unwanted as error:
            done.lost += 1
            done.why = harmless(str(error))
            spool.done(hour, "lost")
        except UserError as error:
            done.why = harmless(str(error))
            break
        else:
            done.sent += 1
            spool.done(hour, "sent")
    done.waiting = len(spool.waiting())
    return done
