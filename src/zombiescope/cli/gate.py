"""The image gate: fail a build whose image would leak cgroups or restart agents forever.

With --root it checks an image that is not running, a folder or a tar of one, and needs no privilege. Without --root it
checks this machine once; with --soak it watches it for some minutes. Every rule passes, objects, or says what it could
not read; what could not be read never passes.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from zombiescope.cli._arguments import FILE, add_format, add_repeatable, complete
from zombiescope.cli._knowledge import add_knowledge, use_knowledge
from zombiescope.cli._looking import LONGEST, add_exit_style, duration, look
from zombiescope.core import Host, UserError, harmless
from zombiescope.members.rooms import load, names
from zombiescope.outputs._exit_codes import EXIT_STYLES

if TYPE_CHECKING:
    from zombiescope.cli._gate_report import Report
    from zombiescope.gate._image import Image
    from zombiescope.gate._lists import Allowance

FORMATS = ("text", "json", "junit", "sarif")
ANSWERS = {"pass": "clear", "fail": "found", "blind": "blind"}
EXAMPLES = """examples:
  zombiescope gate --root /mnt/image                      a mounted image
  zombiescope gate --root rootfs.tar.zst --format junit -o gate.xml
  zombiescope gate --root /mnt/image --allow allow.toml --baseline baseline.toml
  zombiescope gate --soak 10m                             a machine just booted from the image, for ten minutes
  zombiescope gate --max-memcg 500                        this machine, now

exit codes: 0 pass, 1 an objection, 2 usage, 3 blind: no objection, but not everything could be read
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root", metavar="DIR", help="an image: a folder, or a tar of one (.gz, .xz, .bz2, .zst) [this machine]"
    )
    parser.add_argument(
        "--soak",
        type=duration("minutes", LONGEST / 60),
        metavar="T",
        help="watch this machine for this long: minutes, or 90s, 10m, 1h",
    )
    parser.add_argument(
        "--max-memcg",
        type=_limit,
        default=1000,
        metavar="N",
        help="fail from this many memory cgroups on, live and dying [1000]",
    )
    parser.add_argument(
        "--cmdline", metavar="TEXT", help="with --root: the kernel command line it is booted with, if no file says it"
    )
    parser.add_argument(
        "--allow", metavar="FILE", help="TOML: units that may start at boot, with owners; others are objections"
    )
    parser.add_argument(
        "--baseline", metavar="FILE", help="TOML: accepted objections, each with a reason and an expiry date"
    )
    add_repeatable(parser, "--skip", "RULE", "skip a rule, by its name in the report; repeatable", names("gate"))
    parser.add_argument("--strict", action="store_true", help="treat notes as errors")
    add_format(parser, *FORMATS)
    add_knowledge(parser)
    add_exit_style(parser, "ci")
    complete(parser, root=FILE, allow=FILE, baseline=FILE)


def run(args: argparse.Namespace) -> int:
    from zombiescope.gate._lists import read_allowed, read_baseline
    from zombiescope.gate._unpacked import root_folder

    if args.root and args.soak is not None:
        raise UserError(
            "--soak and --root exclude each other: --soak watches a running machine, --root checks an image"
        )
    if args.cmdline is not None and not args.root:
        raise UserError("--cmdline needs --root: a running machine says in /proc/cmdline what it was booted with")
    use_knowledge(args)
    allowed = read_allowed(args.allow) if args.allow else None
    args.accepted = read_baseline(args.baseline) if args.baseline else []
    if args.root:
        with root_folder(args.root) as folder:
            return _judge(args, Host(folder, live=False), allowed)
    return _judge(args, Host(), allowed)


def _judge(args: argparse.Namespace, host: Host, allowed: list[Allowance] | None) -> int:
    from zombiescope.cli._gate_report import shape
    from zombiescope.gate._lists import accept
    from zombiescope.gate._rulings import rulings

    image = _image(args, host, allowed)
    found = rulings(image, args.skip, strict=args.strict)
    now = datetime.now(UTC)
    found = accept(found, args.accepted, now.date(), strict=args.strict)
    report = shape(image, found, args.root or host.root, now)
    _write(args, report)
    return EXIT_STYLES[args.exit_style][ANSWERS[report.verdict]]


def _image(args: argparse.Namespace, host: Host, allowed: list[Allowance] | None) -> Image:
    from zombiescope.gate._image import Image
    from zombiescope.gate._needs import asked_probes, asked_signs

    timeline = case = None
    if args.soak is not None:
        from zombiescope.diagnosis.examine import examine

        signs = {name: load("signs", name) for name in asked_signs(args.skip)}
        timeline = look(host, args.soak * 60, asked_probes(args.skip, signs))
        case = examine(timeline, signs=signs, laws={}, questions={}, remedies={})
    elif host.live:
        timeline = look(host, 0.0, asked_probes(args.skip))
    return Image(host, allowed=allowed, most_cgroups=args.max_memcg, timeline=timeline, case=case, cmdline=args.cmdline)


def _write(args: argparse.Namespace, report: Report) -> None:
    """The report; if it is not for a terminal, the reasons go to stderr too."""
    load("cli", f"_gate_{args.format}").write(report, sys.stdout)
    if args.output or args.format != "text":
        for line in report.reasons():
            print(harmless(line, most=1000), file=sys.stderr)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:9]) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1,000,000")
    return int(text)
