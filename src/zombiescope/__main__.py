"""The command: `zombiescope VERB …`. Verbs are the files of cli/."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TextIO

from zombiescope import __version__
from zombiescope.cli._parser import Formatter, Parser
from zombiescope.cli._streams import add_quiet, streams_of
from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.members.rooms import Broken, guarded, member, names, strangers
from zombiescope.outputs._exit_codes import BLIND, USAGE
from zombiescope.places import own_processes

DESCRIPTION = "Find out why a Linux node that looks healthy starves its work, with evidence."
EXAMPLES = """examples:
  zombiescope diagnose                  record this machine for 10 s and report what is wrong
  zombiescope census                    live and dying cgroups, by controller
  zombiescope record ./rec              keep the last 12 hours on disk, for the next incident
  zombiescope fix                       show how to fix what was found; changes nothing
  zombiescope explain zombie_cgroups    what a sign means, why it hurts, when it is a false alarm

exit codes: 0 clear, 1 found, 2 usage, 3 blind: something that matters could not be read
"""

# Without a word: one small screen. All verbs with a line each are in --help.
FIRST = f"""{DESCRIPTION}

  zombiescope diagnose              look at this machine for 10 s and say what
                                    is wrong and why; changes nothing
  zombiescope diagnose --sample     the same of a recorded incident
  zombiescope fix                   how to fix what was found; changes nothing
  zombiescope explain NAME          what a word of the report means
  zombiescope top                   the live view on a terminal
  zombiescope record ./rec          keep the last 12 hours on disk
  zombiescope view --sample --open  any second of a recording in the browser
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb. A user's mistake, or a source we cannot read, is one line on stderr and never a traceback."""
    # numpy's BLAS starts a thread for every core, which spins before it sleeps: 50 ms of CPU on two cores, more on 96.
    # We multiply no matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a C locale cannot show every name
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:  # a command, not a call of a program's own
        own_processes.begin(os.getpid())
    if not words:
        print(_short())
        return 0
    named = words[0] in names("cli")
    args = (command_parser(words[0]) if named else _overview()).parse_args(words)
    try:
        code = guarded(lambda: _run(args))
    except (UserError, Unreadable, Unparsable) as error:
        print(f"zombiescope: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 130
    if isinstance(code, Broken):
        print(
            f"zombiescope: this is a bug, please report it: {code.why} (ZOMBIESCOPE_DEBUG=1 shows where)",
            file=sys.stderr,
        )
        return BLIND
    return code


def _run(args: argparse.Namespace) -> int:
    try:
        with streams_of(args):
            code: int = args.run(args)
            sys.stdout.flush()
        return code
    except SystemExit as stop:  # what a verb uses may end itself: a server that cannot listen
        if isinstance(stop.__context__, BrokenPipeError):  # rich turns a broken pipe into an exit with code 1
            return _unread()
        return stop.code if isinstance(stop.code, int) else USAGE if stop.code else 0
    except BrokenPipeError:
        return _unread()
    except OSError as error:
        _to_nowhere(sys.stdout)
        raise UserError(f"cannot write the output: {(error.strerror or str(error)).lower()}") from error


def _unread() -> int:
    """The reader of stdout or stderr has gone (`| head`): nobody to report to. The shell's code for SIGPIPE."""
    _to_nowhere(sys.stdout)
    _to_nowhere(sys.stderr)
    return 141


def _to_nowhere(stream: TextIO) -> None:
    """Python would fail once more when it closes the stream at exit, and exit with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def command_parser(verb: str = "") -> argparse.ArgumentParser:
    """With all verbs; or, if `verb` is one of them, with that one alone: the others need not be loaded."""
    parser, verbs = _command()
    for name in [verb] if verb in names("cli") else names("cli"):
        _add_verb(verbs, name, member("cli", name))
    return parser


def _short() -> str:
    import textwrap

    others = " ".join(name for name in names("cli") if f"zombiescope {name} " not in FIRST)
    more = textwrap.wrap(f"more verbs: {others}", 78, subsequent_indent=" " * len("more verbs: "))
    return "\n".join([FIRST, *more, "`zombiescope --help` has a line on each, `zombiescope VERB --help` examples"])


def _overview() -> argparse.ArgumentParser:
    """For --help, --version and a verb that does not exist: the verbs by their first lines. None of ours is loaded."""
    from pkgutil import get_data  # importlib.resources takes 20 ms to import

    parser, verbs = _command()
    for name in names("cli"):
        if name in strangers("cli"):
            _add_verb(verbs, name, member("cli", name))
        else:
            text = (get_data("zombiescope.cli", f"{name}.py") or b"").decode()
            verbs.add_parser(name, help=_summary(text.removeprefix('"""')))
    return parser


def _command() -> tuple[argparse.ArgumentParser, Any]:
    parser = Parser(
        prog="zombiescope",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("--version", action="version", version=f"zombiescope {__version__}")
    # With `prog` argparse need not work out the usage, for which it loads shutil and all that packs files: 4 ms.
    return parser, parser.add_subparsers(title="verbs", metavar="VERB", required=True, prog="zombiescope")


def _summary(docstring: str) -> str:
    first = docstring.strip().splitlines()[0].removesuffix('"""')
    return first[:1].lower() + first[1:].rstrip(".").replace("%", "%%")


def _add_verb(verbs: Any, name: str, verb: ModuleType | Broken) -> None:
    if isinstance(verb, Broken):
        _add_broken(verbs.add_parser(name, help=f"broken: {verb.why}".replace("%", "%%")), name, verb)
        return
    sub = verbs.add_parser(
        name,
        help=_summary(verb.__doc__ or ""),
        description=verb.__doc__,
        epilog=verb.EXAMPLES,
        formatter_class=Formatter,
    )
    sub.set_defaults(run=verb.run)
    added = guarded(lambda: verb.add_args(sub))
    if isinstance(added, Broken):
        _add_broken(sub, name, added)
    add_quiet(sub)


def _add_broken(sub: argparse.ArgumentParser, name: str, broken: Broken) -> None:
    """A verb that cannot be used is listed all the same, and says why when it is called."""

    def run(_: argparse.Namespace) -> int:
        raise UserError(f"{name} is broken: {broken.why}")

    sub.set_defaults(run=run)


if __name__ == "__main__":
    sys.exit(main())
