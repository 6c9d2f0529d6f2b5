"""A flame graph of any time range of a recording or profile, or the difference of two, in the format you need.

Reads recordings, perf.data, the text of `perf script`, folded stacks, pprof, speedscope and .cpuprofile, packed or
not. Idle time is left out, interrupts on an idle core are kept. docs/exports.md says which tool reads which format.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import IO, TYPE_CHECKING

from zombiescope.cli._arguments import FILE, add_kallsyms, add_measure, add_range, complete
from zombiescope.cli._whole_file import whole_file
from zombiescope.core import UserError
from zombiescope.outputs._exit_codes import BLIND, CLEAR

if TYPE_CHECKING:
    from zombiescope.cli._sources import Source
    from zombiescope.core.model import Span
    from zombiescope.core.samples import Ints, Samples
    from zombiescope.profile.chosen import Chosen
    from zombiescope.profile.picture import Picture

PAGE = "html"  # the time-travel page as one file: web's, all others are in profile/exports
FORMATS = ("folded", "html", "json", "png", "pprof", "script", "speedscope", "svg", "text")
EXAMPLES = """examples:
  zombiescope flame ./rec                                    the busiest functions, as text
  zombiescope flame ./rec --from 10:42:00 --to 10:42:07 -o seconds.svg
  zombiescope flame perf.data --from 12.5 --to 14 --baseline 0..10 --format folded
  zombiescope flame perf.data --comm kubelet --cpu 37 --format pprof -o kubelet.pb.gz
  zombiescope flame perf.data.1 perf.data.2 --format speedscope -o both.speedscope.json
  zombiescope flame heap.pb.gz --value alloc_space           of a profile's values another one than its default
  zombiescope flame perf-script.txt.gz --format script -o for-flamescope.txt

times: unix seconds, 2025-03-04T05:06:07 or 05:06:07 (UTC), or plain seconds since the capture began
exit codes: 0 written, 2 usage, 3 no samples in that range
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", nargs="+", help="a recording, or one or more files of samples, read as one"
    )
    add_range(parser, "start of the range [the first sample]", "end of the range [the last sample]")
    parser.add_argument("--baseline", metavar="T..T", help="show the difference to this range of the same source")
    parser.add_argument("--cpu", type=_number, metavar="N", help="one core only [all]")
    parser.add_argument("--comm", metavar="C", help="threads of this name only [all]")
    parser.add_argument("--pid", type=_number, metavar="P", help="one process only [all]")
    parser.add_argument("--cgroup", metavar="PATH", help="this cgroup and all below it [all]")
    add_measure(parser)
    add_kallsyms(parser)
    parser.add_argument("--format", choices=FORMATS, help="output format [by the suffix of -o FILE, else text]")
    parser.add_argument("-o", "--output", dest="out", metavar="FILE", help="write to this file [stdout]")
    complete(parser, source=FILE, out=FILE, kallsyms=FILE)


def run(args: argparse.Namespace) -> int:
    from zombiescope.cli._allocating import reuse_freed

    reuse_freed()
    from zombiescope.cli._files import LATER, NOW, Asked
    from zombiescope.cli._sources import in_full, is_recording, opened, say
    from zombiescope.members.rooms import load
    from zombiescope.profile.chosen import Chosen, naming
    from zombiescope.profile.picture import Picture

    form = args.format or _by_name(args.out)
    export = load("profile.exports", form) if form != PAGE else None
    if args.baseline and (export is None or not export.COMPARES):
        raise UserError(f"--baseline does not work with {form}: use folded, json, pprof, png, svg or text")
    if not args.out and export is not None and export.BINARY and sys.stdout.isatty():
        raise UserError(f"{form} is binary: give -o FILE, or a pipe")
    stacks = NOW if args.start is None and args.end is None else LATER
    span = _span(args) if is_recording(args.source[0]) else None
    source = opened(*args.source, span=span, asked=Asked(args.event, args.value, args.kallsyms, stacks))
    capture = source.capture
    say(source)
    start, end = _times(args.start, args.end, source)
    chosen = Chosen(start=start, end=end, cpu=args.cpu, pid=args.pid, comm=args.comm, cgroup=args.cgroup)
    baseline = None
    if capture.parted is not None:
        chosen, baseline = _halves(chosen, capture.parted, form, compares=export is not None and export.COMPARES)
    elif args.baseline:
        start, end = _times(*_stretch(args.baseline), source)
        baseline = replace(chosen, start=start, end=end)
    source = in_full(source, *((it.start, it.end) for it in (chosen, baseline) if it is not None))
    capture = source.capture
    capture = naming(capture, _meant(capture, chosen, baseline))
    picture = Picture(capture=capture, chosen=chosen, baseline=baseline)
    with _door(args.out) as out:
        if export is None:
            from zombiescope.web.onefile import write

            write(replace(source, capture=capture.only(picture.rows)), out)
        else:
            export.write(picture, out)
    return _judged(picture)


def _halves(chosen: Chosen, parted: int, form: str, *, compares: bool) -> tuple[Chosen, Chosen | None]:
    """A source that is a difference of two profiles already: what is shown, and what it is compared with."""
    if not compares:
        print(f"{form} shows no difference: only the second profile is written", file=sys.stderr)
    return replace(chosen, start=parted), replace(chosen, end=parted) if compares else None


def _meant(capture: Samples, *choices: Chosen | None) -> Ints:
    """The rows that will be shown: only their functions need names."""
    import numpy as np

    return np.concatenate([it.rows(capture) for it in choices if it is not None])


def _judged(picture: Picture) -> int:
    if picture.baseline is not None and not picture.sum_before:
        print("no samples in the baseline range", file=sys.stderr)
    if not picture.sum:
        print("no samples of busy cores in that range", file=sys.stderr)
    return CLEAR if picture.sum and (picture.baseline is None or picture.sum_before) else BLIND


def _by_name(path: str | None) -> str:
    """The format that a file's name asks for."""
    from zombiescope.members.rooms import load

    if path is None:
        return "text"
    suffixes = {form: load("profile.exports", form).SUFFIX for form in FORMATS if form != PAGE} | {PAGE: ".html"}
    longest_first = sorted(suffixes.items(), key=lambda it: -len(it[1]))
    found = next((form for form, suffix in longest_first if path.endswith(suffix)), None)
    if found is None:
        raise UserError(
            f"{path}: unknown suffix: give --format, or a name that ends in {', '.join(sorted(suffixes.values()))}"
        )
    return found


def _times(start: str | None, end: str | None, source: Source) -> tuple[int | None, int | None]:
    from zombiescope.cli._sources import instant

    begin = None if start is None else instant(start, source)
    finish = None if end is None else instant(end, source)
    if begin is not None and finish is not None and begin >= finish:
        raise UserError(f"--from {start} is not before --to {end}")
    return begin, finish


def _stretch(text: str) -> tuple[str, str]:
    start, dots, end = text.partition("..")
    if not dots or not start or not end:
        raise UserError(f"{text!r} is not a time range: write it as 0..10 or 10:40:00..10:41:00")
    return start, end


def _span(args: argparse.Namespace) -> Span | None:
    """The part of a recording to read, if wall-clock times are given: one second does not need twelve hours."""
    from zombiescope.cli._looking import moment
    from zombiescope.core.model import Span

    asked = [(args.start, args.end), *([_stretch(args.baseline)] if args.baseline else [])]
    try:
        starts = [0.0 if start is None else moment(start) for start, _ in asked]
        ends = [inf if end is None else moment(end) for _, end in asked]
    except argparse.ArgumentTypeError:
        return None  # seconds since the start, which is known only once it is open
    return Span(min(starts), max(ends)) if min(starts) < max(ends) else None


@contextmanager
def _door(path: str | None) -> Iterator[IO[bytes]]:
    """Stdout, or a file that appears only when it is complete."""
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(path) as out:
        yield out


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)
