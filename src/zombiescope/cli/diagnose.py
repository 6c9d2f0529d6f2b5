"""Check this node, or a recording, and report what starves it, with evidence.

Reads only; changes nothing. Records for --seconds every source that it may read, runs every check, and prints the
root cause first: since when, what it broke, how sure, what to type next; then the chain of evidence, and what could
not be checked. -v adds the readings behind each line.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from zombiescope.cli._arguments import FILE, add_optional, add_output, add_range, add_repeatable, complete
from zombiescope.cli._knowledge import add_knowledge, use_knowledge
from zombiescope.cli._looking import (
    add_bpf,
    add_duration,
    add_exit_style,
    add_hertz,
    add_host,
    add_seconds,
    duration,
    host_of,
    look,
    moment_of_recording,
    name_of,
    needs_linux,
    recorded,
    recorded_root,
)
from zombiescope.cli._sample import ABOUT, add_sample, sample_folder
from zombiescope.core import Host, UserError, harmless, lasting
from zombiescope.core.model import Case, Span
from zombiescope.members.rooms import load, names
from zombiescope.outputs._exit_codes import EXIT_STYLES

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline

OLDEST = 366 * 86400.0  # seconds: no log that we read is older
EXAMPLES = """examples:
  zombiescope diagnose                                record for 10 s, then report
  zombiescope diagnose --sample                       a recorded incident, to see what a report looks like
  zombiescope diagnose -v                             with the evidence for every line
  zombiescope diagnose --since 2h                     an OOM kill of an hour ago counts, and decides the exit code
  zombiescope diagnose --seconds 60 --format json     for a program
  zombiescope diagnose --set proc_stat.EVERY=0.05 --set saturated_core.SECONDS=0.3
                                                      also bursts of a third of a second
  zombiescope diagnose ./rec --from 05:10 --to 05:12  two minutes of a recording (UTC; or seconds since it began)
  zombiescope diagnose /var/lib/zombiescope --last 10m
                                                      what a running agent has recorded in the last ten minutes
  zombiescope diagnose ./copied-root                  a copy of another machine's /proc and /sys
  zombiescope diagnose kern.log.1.gz                  a kernel log alone: dmesg, journalctl -k, kern.log
  zombiescope diagnose --host /host                   in a pod with hostPID: the node whose / is mounted at /host
  zombiescope diagnose --format dot | dot -Tsvg       draw the chain

exit codes: 0 OK (or noted: no harm done), 1 PROBLEM, 2 usage, 3 NOT SURE: no harm found, but not all was checked
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    add_optional(parser, "recording", "a recording, a copied root or a kernel log [this machine]")
    add_sample(parser)
    add_seconds(parser, 10.0, "how long to record: seconds, or 90s, 10m [10]")
    add_hertz(parser, 99, "stack samples per second on each core, 0 for none [99]")
    end = "read the recording up to this time [its end]"
    add_range(parser, "read the recording from this time on, UTC [its start]", end, moment_of_recording)
    says = "read the last minutes of the recording alone, such as 10m [all of it]"
    add_duration(parser, "--last", duration("seconds", OLDEST), 0.0, says)
    says = "what ended this long ago or later counts too, such as 30m or 2h [only what goes on during the look]"
    add_duration(parser, "--since", duration("seconds", OLDEST), 0.0, says)
    add_host(parser)
    add_bpf(parser)
    parser.add_argument("--format", choices=names("outputs"), default="text", help="output format [text]")
    add_output(parser)
    parser.add_argument(
        "-v", "--evidence", action="store_true", help="add the evidence: every reason, reading and check"
    )
    says = "override a threshold or pace, such as saturated_core.FULL=0.8 (see `explain`); repeatable"
    add_repeatable(parser, "--set", "MEMBER.CONST=VALUE", says)
    add_knowledge(parser)
    add_exit_style(parser, "ci")
    complete(parser, recording=FILE)


def run(args: argparse.Namespace) -> int:
    if args.sample:
        args.recording = sample_folder(args.recording, args.host)
        print(ABOUT, file=sys.stderr)
    if args.recording:
        return _run(args)
    needs_linux()
    from zombiescope.recorder.priority import keeping_up

    with keeping_up():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from zombiescope.diagnosis.examine import examine
    from zombiescope.diagnosis.settings import override, reach_back
    from zombiescope.recorder.meta import is_recording

    use_knowledge(args)
    settings = override(args.set)
    reach_back(args.since)
    if args.recording and args.host:
        raise UserError("--host is for a live node: leave out the recording, or --host")
    if args.last and not (args.recording and is_recording(args.recording)):
        raise UserError("--last is for a recording, as `zombiescope record` and the agent make it")
    if args.last and (args.start is not None or args.end is not None):
        raise UserError("--last is counted from the end of the recording: leave out --from and --to, or --last")
    timeline, node, kernel = _recorded(args) if args.recording else _live(host_of(args), args.seconds, args.hz)
    case = examine(timeline, node=node, kernel=kernel, settings=settings, since=args.since)
    if args.recording and is_recording(args.recording):
        case = replace(case, recording="--sample" if args.sample else args.recording)
    output = load("outputs", args.format)
    write = getattr(output, "write_evidence", output.write) if args.evidence else output.write
    write(case, timeline, sys.stdout)
    return EXIT_STYLES[args.exit_style][_answer(case)]


def _live(host: Host, length: float, hz: int = 0) -> tuple[Timeline, str, str]:
    return (look(host, length, hz=hz), *name_of(host))


def _recorded(args: argparse.Namespace) -> tuple[Timeline, str, str]:
    """A flight recording, a kernel's log as text, or a copy of a machine's files."""
    from zombiescope.recorder.log_file import timeline_of_log
    from zombiescope.recorder.meta import is_recording

    if os.path.isfile(args.recording):
        timeline, times = timeline_of_log(args.recording)
        print(f"{harmless(args.recording)}: {times}", file=sys.stderr)
        return timeline, "", ""
    if not is_recording(args.recording):
        return _live(recorded_root(args.recording), 0.0)
    return recorded(args.recording, _stretch(args))


def _stretch(args: argparse.Namespace) -> Span | None:
    if args.last:
        from zombiescope.recorder.replay import opened

        end = opened(args.recording).span.end
        ago = lasting(max(time.time() - end, 0.0))
        print(f"{harmless(args.recording)}: the last {lasting(args.last)}; it ends {ago} ago", file=sys.stderr)
        return Span(end - args.last, float("inf"))
    if args.start is None and args.end is None:
        return None
    return Span(args.start if args.start is not None else 0.0, args.end if args.end is not None else float("inf"))


def _answer(case: Case) -> str:
    """The exit code says what the report's first word says."""
    from zombiescope.outputs._story import NOT_SURE, OK, PROBLEM, headline

    return {PROBLEM: "found", OK: "clear", NOT_SURE: "blind"}[headline(case)[0]]
