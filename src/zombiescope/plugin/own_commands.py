"""The commands that our own remedies plan: what else a pod calls a command is not printed as one.

They are in a file that `make docs` writes from the FORMS of the remedies, as these need numpy and the plugin does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from zombiescope.core.forms import Form

FILE = "own_commands.json"
_OWN_PYTHON = (r"/.*/python[\d.]*", "-I", r"/.*/own_python\.py", r"zombiescope\.(?:treatment|kubernetes)\.\w+_command")


def is_ours(remedy: str, subject: str, argv: Sequence[str], stdin: str) -> bool:
    """Whether this remedy plans such a command for this subject."""
    unit = subject.removeprefix("unit:") if subject.startswith("unit:") else ""
    return any(form.is_of(argv, stdin, unit) for form in _forms().get(remedy, ()))


def is_own_program(argv: Sequence[str]) -> bool:
    """Whether it runs a module of ours: by a path that the pod has, and the node has not."""
    return len(argv) > len(_OWN_PYTHON) and all(map(re.fullmatch, _OWN_PYTHON, argv))


@cache
def _forms() -> dict[str, list[Form]]:
    told = json.loads(resources.files(__package__).joinpath(FILE).read_text())
    return {
        remedy: [Form(argv=tuple(it["argv"]), stdin=it["stdin"], varies=it["varies"]) for it in its]
        for remedy, its in told.items()
    }
