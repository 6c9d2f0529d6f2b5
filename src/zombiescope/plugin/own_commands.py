"""The commands that our own remedies plan: what else a pod calls a command is not printed as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from zombiescope.members.rooms import healthy

_OWN_PYTHON = (r"/.*/python[\d.]*", "-I", r"/.*/own_python\.py", r"zombiescope\.(?:treatment|kubernetes)\.\w+_command")


def is_ours(remedy: str, subject: str, argv: Sequence[str], stdin: str) -> bool:
    """Whether this remedy plans such a command for this subject."""
    unit = subject.removeprefix("unit:") if subject.startswith("unit:") else ""
    forms = getattr(healthy("remedies").get(remedy), "FORMS", ())
    return any(form.is_of(argv, stdin, unit) for form in forms)


def is_own_program(argv: Sequence[str]) -> bool:
    """Whether it runs a module of ours: by a path that the pod has, and the node has not."""
    return len(argv) > len(_OWN_PYTHON) and all(map(re.fullmatch, _OWN_PYTHON, argv))
