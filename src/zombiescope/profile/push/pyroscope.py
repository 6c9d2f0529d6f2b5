"""What Pyroscope takes: `POST /push.v1.PusherService/Push`, a PushRequest, gzipped.

    PushRequest{ series=1{ labels=1{ name=1, value=2 }, samples=2{ raw_profile=1, ID=2 } } }

Its limits: 4 MB and 16,000 samples for each profile, 30 labels, 2 MB at once for all nodes of a tenant; nothing older
than an hour.
"""

from __future__ import annotations

import gzip
import uuid
from collections.abc import Iterable

from zombiescope.profile.exports.pprof import unlabelled
from zombiescope.profile.picture import Picture
from zombiescope.profile.push.series import Series
from zombiescope.profile.wire import message

NAME = "process_cpu"  # the kind of profile, as other tools call CPU time


def body(every: Iterable[Series], node: str) -> bytes:
    return gzip.compress(b"".join(message(1, _series(it, node)) for it in every), 6, mtime=0)


def _series(one: Series, node: str) -> bytes:
    labels = {"__name__": NAME, "service_name": one.service, "node": node, **one.labels}
    named = (message(1, message(1, name.encode()) + message(2, text.encode())) for name, text in sorted(labels.items()))
    raw = unlabelled(Picture(capture=one.samples), one.start, one.end)
    return b"".join(named) + message(2, message(1, raw) + message(2, str(uuid.uuid4()).encode()))
