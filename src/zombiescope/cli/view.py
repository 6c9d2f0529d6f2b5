"""The time-travel page: a heatmap of hours, the flame graph of any second, what changed before an event.

Serves the page on this machine and prints its address, or writes it (-o) as one file that opens from disk. Reads
recordings, perf.data, the text of `perf script`, folded stacks, pprof, speedscope and .cpuprofile.
docs/time-travel.md says how to read it.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from zombiescope.cli._arguments import FILE, add_kallsyms, add_measure, add_range, complete
from zombiescope.cli._page_server import add_serving, ready, serve_page
from zombiescope.cli._sample import ABOUT, add_sample, sample_folder
from zombiescope.cli._whole_file import whole_file
from zombiescope.core import UserError, harmless

if TYPE_CHECKING:
    from zombiescope.cli._sources import Source
    from zombiescope.core.model import Span
    from zombiescope.core.samples import Samples

EXAMPLES = """examples:
  zombiescope view --sample --open                      a recorded incident, to look around in
  zombiescope view ./rec --open                         serve it on localhost, and open a browser
  zombiescope view ./rec --from 05:10 --to 05:40 -o incident.html
  zombiescope view perf.data                            a capture made by perf
  zombiescope view perf.data.* -o heatmap.png           only the heatmap, many files as one
  zombiescope view ./rec --port 8080                    then, on your laptop: ssh -L 8080:localhost:8080 NODE

times: unix seconds, 2025-03-04T05:06:07 or 05:06:07 (UTC), or plain seconds since the capture began
exit codes: 0 written, or stopped by Ctrl-C, 2 usage
"""
_NEVER = 1 << 62  # nanoseconds: the year 2116


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", nargs="*", help="a recording, or one or more files of samples, read as one"
    )
    add_sample(parser)
    add_range(parser, "start of the range [the first sample]", "end of the range [the last sample]")
    add_measure(parser)
    add_kallsyms(parser)
    parser.add_argument(
        "-o",
        "--output",
        dest="out",
        metavar="FILE",
        help="write one .html file, or the heatmap alone as .png, .svg or .json [serve it]",
    )
    add_serving(parser)
    complete(parser, source=FILE, out=FILE, kallsyms=FILE)


def run(args: argparse.Namespace) -> int:
    if args.sample:
        args.source = [sample_folder(*args.source)]
        print(ABOUT, file=sys.stderr)
    elif not args.source:
        raise UserError("nothing to show: give a recording or a file of samples, or --sample")
    if args.out and not args.out.endswith((".html", ".png", ".svg", ".json")):
        raise UserError(f"{args.out}: unknown suffix: give a name that ends in .html, .png, .svg or .json")
    if not args.out or args.out.endswith(".html"):
        ready("page", serving=not args.out)
    from zombiescope.cli._sources import say

    source = _opened(args)
    say(source)
    return _written(args.out, source) if args.out else _served(args, source)


def _served(args: argparse.Namespace, source: Source) -> int:
    from zombiescope.web.onefile import title_of
    from zombiescope.web.payload import bundle_of
    from zombiescope.web.server import application

    return serve_page(args, lambda token, opened: application(bundle_of(source), title_of(source), token, opened))


def _opened(args: argparse.Namespace) -> Source:
    """The source, or the part of it that was asked for."""
    from dataclasses import replace

    from zombiescope.cli._allocating import reuse_freed

    if args.out:  # a server stays
        reuse_freed()
    from zombiescope.cli._files import NEVER, NOW, Asked
    from zombiescope.cli._sources import SECOND, instant, opened, span_of
    from zombiescope.core.model import Span

    stacks = NOW if not args.out or args.out.endswith(".html") else NEVER  # a picture of the heatmap has none
    source = opened(*args.source, span=_span(args), asked=Asked(args.event, args.value, args.kallsyms, stacks))
    capture = source.capture
    if capture.parted is not None:
        print("the page shows no difference of two profiles, only the second: see `flame`", file=sys.stderr)
        return replace(source, capture=capture.only(capture.at >= capture.parted))
    if args.start is None and args.end is None:
        return source
    own = span_of(source)
    start = 0 if args.start is None else instant(args.start, source)
    end = _NEVER if args.end is None else instant(args.end, source)
    if start >= end:
        raise UserError(f"--from {args.start} is not before --to {args.end}")
    known = source.recording is not None or len(capture)
    if known and (start > own.end * SECOND or end < own.start * SECOND):
        raise UserError(f"{harmless(source.label)} has nothing in that range: {_lasts(own, capture.clock)}")
    part = capture.only((capture.at >= start) & (capture.at < end))
    span = Span(start / SECOND, end / SECOND)
    return replace(source, capture=part, timeline=source.recording.timeline(span) if source.recording else None)


def _lasts(span: Span, clock: str) -> str:
    from zombiescope.cli._looking import lasts

    return lasts(span) if clock == "unix" else f"it lasts from 0 to {span.seconds:.1f}, in seconds since it began"


def _span(args: argparse.Namespace) -> Span | None:
    """The part of a recording to read, if wall-clock times are given."""
    from zombiescope.cli._looking import moment
    from zombiescope.core.model import Span

    try:
        start, end = (None if it is None else moment(it) for it in (args.start, args.end))
    except argparse.ArgumentTypeError:
        return None  # seconds since the start, which is known only once it is open
    if start is None and end is None:
        return None
    return Span(start or 0.0, float("inf") if end is None else end)


def _written(path: str, source: Source) -> int:
    content = _page(source) if path.endswith(".html") else _picture(path, source.capture)
    with whole_file(path) as file:
        file.write(content)
    print(f"wrote {harmless(path)}, {len(content):,} bytes", file=sys.stderr)
    return 0


def _page(source: Source) -> bytes:
    from zombiescope.web.onefile import one_file, title_of
    from zombiescope.web.payload import bundle_of

    return one_file(bundle_of(source), title_of(source))


def _picture(path: str, capture: Samples) -> bytes:
    """The heatmap, which needs no symbol names and so is quick."""
    from zombiescope.profile.heatmap_images import as_png, as_svg

    if path.endswith(".json"):
        return _cells(capture)
    return as_png(capture) if path.endswith(".png") else as_svg(capture)


def _cells(capture: Samples) -> bytes:
    """The heatmap in numbers: when it begins, how long a column is, and each column's rows."""
    import json

    from zombiescope.profile.heatmap_images import grid

    found = grid(capture)
    cells = {
        "label": harmless(capture.label),
        "unit": capture.unit,
        "clock": capture.clock,
        "start_nanoseconds": found.start,
        "column_nanoseconds": found.column,
        "row_nanoseconds": found.column // len(found.heat),
        "columns": found.heat.T.tolist(),
    }
    return json.dumps(cells, separators=(",", ":")).encode() + b"\n"
