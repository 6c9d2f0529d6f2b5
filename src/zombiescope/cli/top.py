"""The live view on a terminal: cores, the worst first, findings, dying cgroups, processes; back in time as well.

Shows what the agent or a recorder on this node writes (/var/lib/zombiescope); if none does, it records by itself into a
folder that it removes at the end. Without a terminal it prints one screen as text. Reads only; changes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack

from zombiescope.cli._arguments import FOLDER, complete
from zombiescope.cli._looking import add_hertz, lasts, moment_of_recording, needs_linux, placed
from zombiescope.cli._sample import add_sample, sample_folder
from zombiescope.core import UserError
from zombiescope.places.own_folders import LEDGER_FOLDER

EXAMPLES = """examples:
  zombiescope top                              this node, live
  zombiescope top --recording ./rec            any moment of a recording: ← → and PageUp go through time
  zombiescope top --recording ./rec --at 05:10:30
  zombiescope top --sample                     a recorded incident, to look around in
  zombiescope top | head -30                   one screen as text

keys: q quit, ? help, space pause, arrows and PageUp for time, Tab for the next pane, Enter opens, Esc closes
exit codes: 0 shown, 2 usage
"""
WIDE, HIGH = 100, 40  # of one screen as text
FIRST = 6.0  # seconds until a recorder of ours has written what a screen needs


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recording", metavar="DIR", help="show this recording, of this node or another [the one that is being made]"
    )
    add_sample(parser)
    parser.add_argument(
        "--at", type=moment_of_recording, metavar="T", help="the moment to begin with, UTC [the newest]"
    )
    add_hertz(parser, 49, "stack samples per second on each core if nothing records yet, 0 for none [49]")
    complete(parser, recording=FOLDER)


def run(args: argparse.Namespace) -> int:
    from zombiescope.top.moments import Moments, check
    from zombiescope.top.own_recorder import OwnRecorder
    from zombiescope.top.tail import grows

    folder = sample_folder(args.recording) if args.sample else args.recording
    with ExitStack() as undo:
        own = None
        if folder is not None:
            check(folder)
        elif os.access(LEDGER_FOLDER, os.R_OK | os.X_OK) and grows(LEDGER_FOLDER, time.time()):
            folder = LEDGER_FOLDER
        else:
            needs_linux()
            own = undo.enter_context(OwnRecorder(args.hz))
            print("nothing records on this node: recording for as long as this runs …", file=sys.stderr)
            folder = own.ready()
        moments = Moments(folder)
        undo.callback(moments.close)
        if args.at is not None:
            span = moments.span
            at = placed(args.at, span)
            if not span.holds(at):
                raise UserError(f"nothing at that time: {lasts(span)}")
            moments.at = at
        if sys.stdin.isatty() and sys.stdout.isatty():
            from zombiescope.top.terminal import show

            show(moments, own.trouble if own is not None else lambda: "")
        else:
            from zombiescope.top.one_screen import one_screen

            print(one_screen(moments, WIDE, HIGH, wait=FIRST if moments.live else 0.0))
    return 0
