"""What Parca takes: `POST /api/profiles/writeraw`, a WriteRawRequest as JSON.

`normalized`: all functions have names, so it need not look for symbols. Its rules for pprof: identities count up from
1, each sample has a value for each type, each label is once; a type is one of time only if the profile has a duration.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable

from zombiescope.profile.exports.pprof import unlabelled
from zombiescope.profile.picture import Picture
from zombiescope.profile.push.series import Series

NAME = "process_cpu"


def body(every: Iterable[Series], node: str) -> bytes:
    series = []
    for one in every:
        labels = {"__name__": NAME, "job": one.service, "node": node, **one.labels}
        raw = gzip.compress(unlabelled(Picture(capture=one.samples), one.start, one.end), 6, mtime=0)
        named = [{"name": name, "value": text} for name, text in sorted(labels.items())]
        series.append({"labels": {"labels": named}, "samples": [{"rawProfile": base64.b64encode(raw).decode()}]})
    return json.dumps({"series": series, "normalized": True}, separators=(",", ":")).encode()
