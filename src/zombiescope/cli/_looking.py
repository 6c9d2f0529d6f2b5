"""What verbs that look at a machine share: where to look, for how long, and a progress line while they do."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Container
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zombiescope.cli._arguments import FOLDER, complete
from zombiescope.core import Host, Span, Unreadable, UserError, harmless
from zombiescope.outputs._exit_codes import EXIT_STYLES

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline

LONGEST = 3600.0  # seconds: a longer recording belongs on disk, not in memory
_LETTERS = ("s", "m", "h", "d")
_SECONDS = {
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
}
_DAY = _SECONDS["d"]


def add_exit_style(parser: argparse.ArgumentParser, default: str | None) -> None:
    parser.add_argument(
        "--exit-style",
        choices=sorted(EXIT_STYLES),
        default=default,
        help="whose exit codes: ci 0/1/3, npd 0/1/2, nagios 0/2/3 (clear, found, blind)" + (" [ci]" if default else ""),
    )


def add_seconds(parser: argparse.ArgumentParser, default: float, says: str) -> None:
    """--seconds; `says` ends with the default in brackets."""
    add_duration(parser, "--seconds", duration("seconds", LONGEST, zero=True), default, says)


def add_duration(
    parser: argparse.ArgumentParser, name: str, read: Callable[[str], float], default: float, says: str
) -> None:
    parser.add_argument(name, type=read, default=default, metavar="T", help=says)


def add_hertz(parser: argparse.ArgumentParser, default: int, says: str) -> None:
    parser.add_argument("--hz", type=hertz, default=default, metavar="F", help=says)


def duration(unit: str, most: float, *, zero: bool = False) -> Callable[[str], float]:
    """Reads 90s, 10m, 2h or 1d, and a bare number as so many of `unit`, in which the value is returned."""

    def read(text: str) -> float:
        letter = text[-1:].lower()
        number, own = (text[:-1], _SECONDS[letter]) if letter in _LETTERS else (text, _SECONDS[unit])
        try:
            value = float(number) * own / _SECONDS[unit]
        except ValueError:
            value = -1.0
        if not (0 < value <= most or (zero and value == 0)):
            limits = f"from 0 to {most:.0f}" if zero else f"above 0 and up to {most:.0f}"
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number of {unit} {limits}, nor a duration as 90s, 10m or 2h"
            )
        return value

    return read


def hertz(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text[:9]) <= 999:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate from 0 to 999")
    return int(text)


class TimeOfDay(float):
    """05:06:07 without a date: that of today, until it is known of which day a recording is (`placed`)."""


class SinceStart(float):
    """12.5: so many seconds since a recording began, which is known once it is open (`placed`)."""


def moment(text: str) -> float:
    """A time as people write it: unix seconds, 2025-03-04T05:06:07 (UTC unless it says so), or 05:06:07."""
    try:
        if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
            return float(text)
        if re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d+)?)?", text):
            return TimeOfDay(datetime.fromisoformat(f"{datetime.now(UTC):%Y-%m-%d}T{text}+00:00").timestamp())
        told = datetime.fromisoformat(text)
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: unix seconds, 2025-03-04T05:06:07 or 05:06:07, in UTC"
        ) from None


def moment_of_recording(text: str) -> float:
    """The same; and plain seconds since it began."""
    return SinceStart(text) if re.fullmatch(r"[0-9]{1,8}(\.[0-9]{1,9})?", text) else moment(text)


def placed(at: float, own: Span) -> float:
    """A time within a recording. Of a time of day, the last in it, or the nearest to it."""
    if isinstance(at, SinceStart):
        return own.start + at
    if not isinstance(at, TimeOfDay):
        return at
    last = at + (own.end - at) // _DAY * _DAY  # the last before its end
    return last if own.start - last <= max(last + _DAY - own.end, 0.0) else last + _DAY


def span_within(asked: Span | None, own: Span) -> Span | None:
    """A range within a recording; 23:50 to 00:10 is over midnight."""
    if asked is None:
        return None
    start, end = placed(asked.start, own), placed(asked.end, own)
    return Span(start, end + _DAY if isinstance(asked.end, TimeOfDay) and end <= start else end)


def add_host(parser: argparse.ArgumentParser) -> None:
    """--host; `host_of` reads it."""
    says = "in a container: the folder where the node's root is mounted, such as /host [this machine]"
    parser.add_argument("--host", metavar="PATH", help=says)
    complete(parser, host=FOLDER)


def add_bpf(parser: argparse.ArgumentParser) -> None:
    """--no-bpf; `host_of` reads it."""
    says = "attach no eBPF programs: softirqs, interrupts and network polls are not timed"
    parser.add_argument("--no-bpf", action="store_true", help=says)


def needs_linux() -> None:
    """Called before anything that looks at a running machine is loaded; recordings are read on any system."""
    if not sys.platform.startswith("linux"):
        raise UserError("looking at a machine needs Linux; here, give a recording, or --sample")


def host_of(args: argparse.Namespace) -> Host:
    """This machine, or the node whose root --host names."""
    needs_linux()
    if args.host is None:
        host = Host()
    else:
        from zombiescope.kernel.mounted_node import host_at

        host = host_at(args.host)
    host.bpf = not getattr(args, "no_bpf", False)
    return host


def recorded_root(path: str) -> Host:
    """A folder that holds a copy of a machine's files."""
    if not os.path.exists(path):
        raise UserError(f"{path}: no such recording")
    if not any(os.path.isdir(os.path.join(path, part)) for part in ("proc", "sys")):
        raise UserError(f"{path}: not a recording: no meta.json, and neither proc/ nor sys/ as in a copied root")
    return Host(path, live=False)


def recorded(folder: str, span: Span | None = None) -> tuple[Timeline, str, str]:
    """A flight recording, with its node's name and kernel; what is damaged in it is printed."""
    from zombiescope.recorder.replay import opened

    recording = opened(folder)
    span = span_within(span, recording.span)
    refuse_outside(span, recording.span, folder)
    timeline = recording.timeline(span)
    for trouble in recording.damage:
        print(f"damaged: {harmless(trouble)}", file=sys.stderr)
    return timeline, str(recording.meta.get("node", "")), str(recording.meta.get("kernel", ""))


def refuse_outside(asked: Span | None, own: Span, label: str) -> None:
    """A range in which a recording has nothing is a mistake: "nothing found" there would be misread."""
    if asked is not None and (asked.start > own.end or asked.end < own.start):
        raise UserError(f"{harmless(label)} has nothing in that range: {lasts(own)}")


def lasts(span: Span) -> str:
    """From when to when a recording lasts, as --from and --to would be given."""
    from datetime import UTC, datetime

    start, end = (datetime.fromtimestamp(it, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for it in (span.start, span.end))
    return f"it lasts from {start} to {end}"


def look(host: Host, length: float, only: Container[str] | None = None, hz: int = 0) -> Timeline:
    """A short recording in memory, with a progress line for a person who waits."""
    if host.live:
        needs_linux()
    from zombiescope.recorder.layout import TROUBLE
    from zombiescope.recorder.own_limits import MOST_CPU, MOST_MEMORY, OF_A_SAMPLE, restricted
    from zombiescope.recorder.short import record

    shown = host.live and length >= 1 and sys.stderr.isatty()

    def progress(passed: float) -> None:
        print(f"\rlooking: {passed:.1f} of {length:g} s (Ctrl-C ends it early) ", end="", file=sys.stderr, flush=True)

    # Sampling takes up to 1 % of a core for each core, naming and examining less than 0.1 ms for each sample.
    samples = round(hz * length) * (os.cpu_count() or 1)
    try:
        with restricted(MOST_MEMORY + samples * OF_A_SAMPLE, MOST_CPU + round(length) + samples // 10_000):
            timeline = record(host, length, progress if shown else None, only, hz).timeline()
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    for trouble in dict.fromkeys(timeline.series(TROUBLE).texts.values()):
        print(f"trouble: {harmless(trouble)}", file=sys.stderr)
    return timeline


def name_of(host: Host) -> tuple[str, str]:
    """The node's own name and kernel; unknown is not an error."""
    said = []
    for path in ("/proc/sys/kernel/hostname", "/proc/sys/kernel/osrelease"):
        try:
            said.append(host.read(path, most=4096).strip())
        except Unreadable:
            said.append("")
    return said[0], said[1]
