"""Check members and knowledge of your own, in a folder as for ZOMBIESCOPE_PATH.

The folder has signs/, laws/, probes/, … with a file a member, and knowledge/ with .toml files. Each member meets the
checks that zombiescope's own meet: what it imports, its headings and reasons, its shape. It is run as well, in a
process of its own: a sign must be blind where nothing was read and silent on a healthy node. Nothing is changed.
"""

from __future__ import annotations

import argparse
import json

from zombiescope.cli._arguments import FOLDER, add_format, complete
from zombiescope.core import harmless
from zombiescope.outputs._exit_codes import CLEAR, FOUND

EXAMPLES = """examples:
  zombiescope check ./mine                 one line a complaint: file:line: what is wrong; what to do
  zombiescope check ./mine --format json
  ZOMBIESCOPE_PATH=./mine zombiescope diagnose

exit codes: 0 no complaint, 1 complaints, 2 usage
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="DIR",
        help="the folder with signs/, laws/, knowledge/, …, or a project with one package that has them",
    )
    add_format(parser, "text", "json")
    complete(parser, folder=FOLDER)


def run(args: argparse.Namespace) -> int:
    from zombiescope import __version__
    from zombiescope.conformance._folder import check_folder

    report = check_folder(args.folder)
    rows = [
        {"member": it.member, "file": path, "line": it.line or None, "says": it.says, "mend": it.mend}
        for path, it in report.complaints
    ]
    if args.format == "json":
        shape = {"zombiescope": __version__, "schema": 1, "folder": args.folder, "checked": report.checked}
        print(json.dumps(shape | {"complaints": rows}, indent=1))
        return FOUND if rows else CLEAR
    for row in rows:
        place = harmless(str(row["file"])) + (f":{row['line']}" if row["line"] else "")
        print(f"{place}: {harmless(str(row['says']), most=1000)}; {harmless(str(row['mend']))}")
    print(f"{len(report.checked)} checked, {len(rows) or 'no'} complaint{'' if len(rows) == 1 else 's'}")
    return FOUND if rows else CLEAR
