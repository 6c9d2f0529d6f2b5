"""Open anything that holds samples: a recording, perf.data, `perf script` text, folded stacks, pprof, JSON.

A file is recognised by its content, never by its name. Several files, or a folder of them (`perf record
--switch-output` leaves one every few minutes), open as one.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from zombiescope.cli._files import LATER, NOTHING_ASKED, NOW, THREADS, Asked, captured, is_perf_data, of_threads
from zombiescope.core import UserError, harmless
from zombiescope.core.samples import Origin, Samples

if TYPE_CHECKING:
    from zombiescope.core.model import Span
    from zombiescope.core.timeline import Timeline
    from zombiescope.recorder.replay import Recording

_LONGEST_LINE = 2_000
_MOST_FILES = 100_000  # of one folder
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Source:
    """What was opened. Notes about what could not be read are in `capture.notes`."""

    capture: Samples
    label: str  # what was sampled, in a few words: a file's name, a node's
    recording: Recording | None = None
    timeline: Timeline | None = None  # the readings beside the samples: only a recording has them


def opened(path: str, *more: str, span: Span | None = None, asked: Asked = NOTHING_ASKED) -> Source:
    """All of them as one; `span` selects a part of a recording, in unix seconds; `asked` one of several events."""
    if not more and is_recording(path):
        if asked.chooses:
            raise UserError(f"{path}: a recording has one kind of samples: leave out --event and --value")
        return _recording(path, span)
    from zombiescope.profile.joined import joined

    paths = [file for each in (path, *more) for file in _files(each)]
    if len(paths) > 1 and asked.stacks == LATER:
        asked = asked._replace(stacks=NOW)
    captures = [captured(each, asked) for each in paths]
    label = os.path.basename(os.path.normpath(path)) + (f" and {len(more)} more" if more else "")
    return Source(joined(captures, label), label)


def is_recording(path: str) -> bool:
    return os.path.isdir(path) and os.path.isfile(os.path.join(path, "meta.json"))


def say(source: Source) -> None:
    """On stderr: what it is, then what could not be read."""
    from zombiescope.profile.about import line

    _say(source, line(source.capture), *source.capture.notes)


def in_full(source: Source, *ranges: tuple[int | None, int | None]) -> Source:
    """What stands in these ranges of time, with its stacks, if they were not read at once; says what they lack."""
    capture = source.capture
    if capture.in_full is None:
        return source
    spans = [(0 if start is None else start, capture.end if end is None else end) for start, end in ranges]
    part = capture.in_full(spans)
    _say(source, *part.notes)
    return replace(source, capture=replace(part, label=capture.label))


def _say(source: Source, *lines: str) -> None:
    for said in lines:
        print(f"{harmless(source.label)}: {harmless(said, most=_LONGEST_LINE)}", file=sys.stderr)


def _recording(path: str, span: Span | None) -> Source:
    from zombiescope.cli._looking import refuse_outside, span_within
    from zombiescope.recorder import replay

    recording = replay.opened(path)
    label = str(recording.meta.get("node") or os.path.basename(os.path.normpath(path)))
    span = span_within(span, recording.span)
    refuse_outside(span, recording.span, label)
    timeline = recording.timeline(span)
    producer = f"zombiescope on {label}, Linux {recording.meta.get('kernel') or 'unknown'}"
    samples = replace(timeline.samples(), origin=Origin("recording", producer, "CPU time in nanoseconds"))
    return Source(samples, label, recording, timeline)


def _files(path: str) -> list[str]:
    """A file, or the files of a folder in order of their names: perf puts the time into them."""
    if not os.path.isdir(path):
        return [path]
    try:
        with os.scandir(path) as entries:
            files = (entry.path for entry in entries if entry.is_file() and entry.stat().st_size)
            found = sorted(islice(files, _MOST_FILES + 1))
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if len(found) > _MOST_FILES:
        raise UserError(f"{path}: more than {_MOST_FILES:,} files: give those of one recording")
    if "meta.json" in map(os.path.basename, found):
        raise UserError(f"{path}: this is a recording, which is opened alone: give only one SOURCE")
    if of_threads(path) and is_perf_data(os.path.join(path, THREADS)):
        return [path]
    rolling = [each for each in found if is_perf_data(each)]
    if not rolling:
        raise UserError(f"{path}: not a recording: this folder has no meta.json and no perf.data file")
    return rolling


def instant(text: str, source: Source) -> int:
    """A time on the command line, in nanoseconds of the samples' clock.

    Plain seconds count from the first sample ("12.5"). If the samples have wall-clock times, every form that
    `diagnose --from` takes works too.
    """
    capture = source.capture
    if capture.clock == "none":
        raise UserError(
            "the source has no times, so no time range can be chosen: leave out --from, --to, --at and --baseline"
        )
    if found := re.fullmatch(r"(\d{1,8})(?:\.(\d{1,9}))?", text):
        return capture.start + int(found[1]) * SECOND + int((found[2] or "0").ljust(9, "0"))
    if capture.clock != "unix":
        raise UserError(f"{text!r} is not a time in this capture: give seconds since it began, such as 12.5")
    import argparse

    from zombiescope.cli._looking import moment, placed

    try:
        return round(placed(moment(text), span_of(source)) * SECOND)
    except argparse.ArgumentTypeError as error:
        raise UserError(f"{error}; or seconds since the capture began, such as 12.5") from None


def span_of(source: Source) -> Span:
    """How long it lasts; a recording may last longer than its samples."""
    from zombiescope.core.model import Span

    if source.recording is not None:
        return source.recording.span
    return Span(source.capture.start / SECOND, source.capture.end / SECOND)
