"""What was different just before each event, over all events at once: functions, processes, cores and series.

Compares the --seconds before each event with quiet windows near it. Lists what rose more than chance explains, the
largest first: by how much, before how many of the events, and how likely it is by chance alone (p).
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from zombiescope.cli._arguments import FILE, add_format, add_range, add_repeatable, complete
from zombiescope.cli._looking import add_seconds, moment_of_recording
from zombiescope.core import UserError, harmless
from zombiescope.core.model import Span
from zombiescope.outputs._exit_codes import BLIND, CLEAR, FOUND

if TYPE_CHECKING:
    from zombiescope.cli._sources import Source
    from zombiescope.compare.before import Comparison
    from zombiescope.compare.quiet_time import Event
    from zombiescope.compare.rise import Rise

EXAMPLES = """examples:
  zombiescope before ./rec                                  before each NIC driver reset
  zombiescope before ./rec --event saturated_core           before each time a sign's finding began
  zombiescope before ./rec --event 'NMI watchdog|rcu.*stall' --seconds 60
                                                            before matching lines of the kernel log
  zombiescope before ./rec --at 05:10:07 --at 05:31:40 --at 06:02:11
                                                            before times that you know: a job's failures
  zombiescope before perf.data --at 12.5 --at 31 --at 44    in seconds since the capture began
  zombiescope before ./rec --format json

times: unix seconds, 2025-03-04T05:06:07 or 05:06:07 (UTC); with --at also seconds since the capture began
exit codes: 0 nothing stands out, 1 something does, 2 usage, 3 too few events to say
"""
_WIDTH = 44  # of a name; longer ones are cut
_LISTED = 5  # events shown by name


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="a recording; with --at also perf.data or any other file of samples"
    )
    parser.add_argument(
        "--event",
        default=None,
        metavar="SIGN|REGEX",
        help="a sign's name, or a regex for lines of the kernel log [driver_reset]",
    )
    add_repeatable(parser, "--at", "T", "an event's time, instead of --event; repeatable")
    add_seconds(parser, 30.0, "how long before each event: seconds, or 90s, 10m [30]")
    end = "read the recording up to this time [its end]"
    add_range(parser, "read the recording from this time on [its start]", end, moment_of_recording)
    add_format(parser, "text", "json")
    complete(parser, source=FILE, event="signs")


def run(args: argparse.Namespace) -> int:
    from zombiescope.cli._sources import opened
    from zombiescope.compare.before import compare

    if args.seconds <= 0:
        raise UserError("--seconds must be more than 0")
    if args.event is not None and args.at:
        raise UserError("give --event or --at, not both")
    source = opened(args.source, span=_stretch(args))
    for note in source.capture.notes:
        print(harmless(note), file=sys.stderr)
    events = _events(source, args)
    found = compare(source.timeline, source.capture, events, args.seconds)
    if args.format == "json":
        print(json.dumps(_shape(found, source), indent=1, allow_nan=False))
    else:
        _write(found, source, sys.stdout)
    return FOUND if found.significant else CLEAR if found.enough else BLIND


def _stretch(args: argparse.Namespace) -> Span | None:
    if args.start is None and args.end is None:
        return None
    return Span(args.start if args.start is not None else 0.0, args.end if args.end is not None else float("inf"))


def _events(source: Source, args: argparse.Namespace) -> list[Event]:
    from zombiescope.cli._sources import instant
    from zombiescope.compare.before import default_event, events_of
    from zombiescope.compare.quiet_time import Event

    if args.at:
        return [Event(at=instant(it, source) / 1e9, says="as asked") for it in args.at]
    if source.timeline is None:
        raise UserError(f"{args.source} has no kernel log: give the times of the events with --at")
    found, unseen = events_of(source.timeline, args.event or default_event())
    if unseen:
        print(f"blind: {harmless(unseen)}", file=sys.stderr)
    return found


def _when(at: float, source: Source) -> str:
    if source.capture.clock == "unix" or source.timeline is not None:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
    return f"{at - source.capture.start / 1e9:.3f} s"


def _write(found: Comparison, source: Source, out: TextIO) -> None:
    def say(text: str = "") -> None:
        print(text, file=out)

    for note in found.notes:
        say(note)
    if not found.events:
        say("no events: nothing to compare")
        return
    events = "1 event" if len(found.events) == 1 else f"{len(found.events)} events"
    say(
        f"{events}: the {found.seconds:g} s before each, against {found.quiet:,} quiet windows of the same length "
        f"near them; {found.compared:,} things compared"
    )
    for event in found.events[:_LISTED]:
        say(f"  {_when(event.at, source)}  {harmless(event.says, most=90)}")
    if len(found.events) > _LISTED:
        say(f"  … and {len(found.events) - _LISTED} more")
    say()
    say(_answer(found))
    if found.rises and (found.significant or not found.enough):
        say()
        heads = ("before", "quiet", "ratio", "spreads", "events", "p")
        say(f"{'what':<{_WIDTH}}" + "".join(f"{it:>10}" for it in heads))
        for rise in found.rises:
            say(_line(rise, len(found.events)))


def _answer(found: Comparison) -> str:
    from zombiescope.compare.before import FEWEST

    if not found.enough:
        groups = (
            "" if found.apart == len(found.events) else f" (these form {found.apart} groups: try a smaller --seconds)"
        )
        words = "What rose most, which may be chance:" if found.rises else "Nothing rose."
        return f"too few events to rule out chance: {FEWEST} separate ones are needed{groups}, 5 are better. {words}"
    if found.significant:
        return "higher before the events than chance explains:"
    if not found.rises:
        return "nothing was higher before the events"
    best = min(found.rises, key=lambda rise: rise.p)
    return (
        "nothing was higher before the events than chance explains; the closest was "
        f"{_name(best)}, which chance alone reaches in {best.p:.0%} of cases"
    )


def _line(rise: Rise, events: int) -> str:
    name = _name(rise)
    name = name if len(name) < _WIDTH else name[: _WIDTH - 2] + "…"
    ratio = f"{rise.ratio:,.1f}×" if rise.ratio is not None and rise.ratio < 1e6 else "–"
    spreads = f"{rise.spreads:,.1f}" if rise.spreads < 1e6 else "–"
    cells = (_figure(rise.before), _figure(rise.quiet), ratio, spreads, f"{rise.events} of {events}", f"{rise.p:.4f}")
    tail = f"  {rise.unit}" + (f"; {harmless(rise.note)}" if rise.note else "")
    return f"{name:<{_WIDTH}}" + "".join(f"{it:>10}" for it in cells) + tail


def _name(rise: Rise) -> str:
    if rise.kind == "series":
        return harmless(rise.what if rise.subject == "node" else f"{rise.what} {rise.subject}")
    return harmless(rise.subject + (" itself" if rise.what == "own" else ""))


def _figure(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _shape(found: Comparison, source: Source) -> dict[str, Any]:
    """For programs; every figure of a rise can be computed again from `by_event`."""
    return {
        "source": source.label,
        "seconds": found.seconds,
        "events": [{"at": it.at, "says": it.says} for it in found.events],
        "quiet_windows": found.quiet,
        "compared": found.compared,
        "groups_of_events": found.apart,
        "enough_events": found.enough,
        "notes": list(found.notes),
        "rises": [
            {
                "kind": rise.kind,
                "subject": rise.subject,
                "what": rise.what,
                "unit": rise.unit,
                "before": rise.before,
                "quiet": rise.quiet,
                "ratio": rise.ratio,
                "spreads": rise.spreads if rise.spreads < float("inf") else None,
                "events": rise.events,
                "p": rise.p,
                "significant": rise.significant,
                "by_event": list(rise.by_event),
                "note": rise.note,
            }
            for rise in found.rises
        ],
    }
