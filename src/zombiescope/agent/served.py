"""What clients ask for that has to be worked out: a profile of the last seconds, a range for the page. In the examiner.

Nothing of a question is ever a path. What is large is refused before it is read.
"""

from __future__ import annotations

import gzip
import io
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zombiescope.agent.look import AHEAD, STALE
from zombiescope.core import Span, UserError, amount, harmless
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.replay import Recording, opened

MOST_READ = 48 << 20  # bytes on disk of one range: some five times as many in memory
MOST_ROWS = 400_000  # of the page: two cores for an hour; of more, equal ones within a cell are merged
MOST_BODY = 8 << 20  # bytes
LEVEL = 1  # of compression: on a node CPU is dearer than the loopback's bytes
LATE = 5.0  # seconds that the recorder may be behind
SECOND = 1_000_000_000


def served(folder: str, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    if asked["do"] in ("parcel", "hours"):
        from zombiescope.agent.shipped import listing, parcel

        return parcel(folder, asked) if asked["do"] == "parcel" else listing(folder)
    head, body = {"profile": profile, "page": page}[asked["do"]](opened(folder), asked)
    if len(body) > MOST_BODY:
        raise UserError(f"the answer has {amount(len(body))}, more than {amount(MOST_BODY)}: choose a shorter range")
    return head, body


def profile(recording: Recording, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The last seconds as pprof, gzipped."""
    from zombiescope.profile.chosen import Chosen, naming
    from zombiescope.profile.exports import pprof
    from zombiescope.profile.picture import Picture
    from zombiescope.profile.push.series import series_of

    now = time.time()
    timeline = _read(recording, Span(now - asked["seconds"] - LATE, now + AHEAD))
    samples = timeline.samples()
    if not len(samples):
        taken = timeline.looks("samples_total")
        why = harmless(taken.texts.get(len(taken) - 1, "")) if len(taken) else "stacks are not recorded"
        return {"error": f"no stacks in these {asked['seconds']:g} s: {why or 'none arrived yet'}"}, b""
    # Up to what is on disk: the next one who asks continues there.
    end = round(min(timeline.span.end, now) * SECOND)
    start = end - round(asked["seconds"] * SECOND)
    filters = {name: asked[name] for name in ("cpu", "comm", "cgroup") if name in asked}
    chosen = Chosen(start=start, end=max(end, start), **filters)
    rows = chosen.rows(samples)
    if asked.get("labels") == "none":
        plain = series_of(naming(samples, rows).only(rows), (start, end), lambda _: {}, ())
        whole = pprof.unlabelled(Picture(capture=plain[0].samples), start, end) if plain else _empty(samples)
        return {}, gzip.compress(whole, 6, mtime=0)
    out = io.BytesIO()
    pprof.write(Picture(capture=naming(samples, rows), chosen=chosen), out)
    return {}, out.getvalue()


def _empty(samples: Samples) -> bytes:
    from zombiescope.profile.exports import pprof
    from zombiescope.profile.picture import Picture

    return pprof.unlabelled(Picture(capture=samples.only(slice(0, 0))), 0, 0)


@dataclass(frozen=True, slots=True)
class _Part:
    """As much of a recording as the page shows."""

    capture: Samples
    label: str
    timeline: Timeline
    recording: Recording


def page(recording: Recording, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The bundle of a range, gzipped."""
    from zombiescope.web.payload import bundle_of

    own = recording.span
    end = asked.get("to") or own.end + AHEAD
    start = asked.get("from") or own.end - asked["seconds"]
    if end < own.start or start > own.end:
        raise UserError(f"nothing is recorded there: from {own.start:.0f} to {own.end:.0f} there is something")
    timeline = _read(recording, Span(start, end))
    label = str(recording.meta.get("node") or "node")
    capture = replace(timeline.samples(), label=label)
    whole = bundle_of(_Part(capture, label, timeline, recording), most_rows=MOST_ROWS)
    head = {"first": own.start, "last": own.end}
    return head, gzip.compress(whole, LEVEL, mtime=0)


def _read(recording: Recording, span: Span) -> Timeline:
    size = sum(_size(recording.folder, it) for it in _within(recording.segments, span))
    if size > MOST_READ:
        raise UserError(
            f"this range has {amount(size)} on disk, more than {amount(MOST_READ)}: choose a shorter one, "
            "or copy the recording and use `zombiescope view`"
        )
    timeline = recording.timeline(span)
    if timeline.span.end < time.time() - STALE and span.end > time.time():
        raise UserError("the recorder has written nothing for a while: see /healthz")
    return timeline


def _within(segments: Sequence[str], span: Span) -> list[str]:
    """Those that may have something of a span, by their names alone, which say when each began: nothing is read."""
    pairs = zip(segments, [*segments[1:], "inf"], strict=False)
    return [it for it, after in pairs if float(it) - 2 <= span.end and float(after) + 2 >= span.start]


def _size(folder: str, segment: str) -> int:
    with os.scandir(os.path.join(folder, segment)) as entries:
        return sum(it.stat(follow_symlinks=False).st_size for it in entries)
