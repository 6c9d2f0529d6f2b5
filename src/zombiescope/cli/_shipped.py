"""What a package ships beside the code: man pages and completion scripts. Run as a program while it is built."""

from __future__ import annotations

import os
import sys
import time

from zombiescope.__main__ import command_parser
from zombiescope.cli import _manual
from zombiescope.cli._commands import command_of
from zombiescope.cli.completion import SHELLS, script
from zombiescope.core import UserError
from zombiescope.members.rooms import Broken, members

PLACES = {
    "bash": "share/bash-completion/completions/zombiescope",
    "zsh": "share/zsh/site-functions/_zombiescope",
    "fish": "share/fish/vendor_completions.d/zombiescope.fish",
}
MANUAL = "share/man/man1"


def shipped() -> dict[str, str]:
    """Each file's text, by its path below the prefix."""
    if broken := [f"{name}: {found.why}" for name, found in members("cli").items() if isinstance(found, Broken)]:
        raise UserError(f"a page would be missing: {'; '.join(broken)}")
    # The source's own date where the builder knows it, so that the same source makes the same package.
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    pages = _manual.pages(command_of(command_parser()), date)
    made = {f"{MANUAL}/{name}": text for name, text in pages.items()}
    return made | {PLACES[shell]: script(shell) for shell in SHELLS}


def write(folder: str) -> None:
    for path, text in shipped().items():
        whole = os.path.join(folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    write(sys.argv[1])
