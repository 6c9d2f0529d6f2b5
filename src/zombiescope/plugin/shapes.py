"""The commands that our own remedies plan: what else a pod calls a command is not printed as one.

A remedy that gets another command needs its line here; a test walks all remedies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zombiescope.core.commands import is_unit

UNIT = "UNIT"  # stands for the unit that the finding is about
STOP_SCOPES = 'systemctl stop -- "$@" || [ $? = 5 ]'
_SCOPE = r"[A-Za-z0-9:_.\\@-]{1,249}\.scope"
_CGROUP = r"/sys/fs/cgroup/(?!.*/\.\.?/).*"
_LIMITED = r"\[Unit\]\nStartLimitIntervalSec=\d{1,9}\nStartLimitBurst=\d{1,9}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A pattern for each word, one for any further words, one for what the command reads."""

    argv: tuple[str, ...]
    more: str = ""
    stdin: str = ""

    def fits(self, argv: Sequence[str], stdin: str, unit: str) -> bool:
        patterns = [re.escape(unit).join(it.split(UNIT)) for it in self.argv]
        first, rest = argv[: len(patterns)], argv[len(patterns) :]
        return (
            len(first) == len(patterns)
            and all(re.fullmatch(*it, re.ASCII) for it in zip(patterns, first, strict=True))
            and all(self.more and re.fullmatch(self.more, it, re.ASCII) for it in rest)
            and re.fullmatch(self.stdin, stdin, re.ASCII) is not None
        )


SHAPES = {
    "drain_and_reboot": (Shape(argv=("touch", "/var/run/reboot-required")),),
    "move_irq_off_core": (Shape(argv=("tee", r"/proc/irq/\d{1,9}/smp_affinity_list"), stdin=r"\d{1,5}\n"),),
    "reap_defunct": (Shape(argv=("kill", "-CHLD", r"[1-9]\d{0,9}")),),
    "stop_empty_scopes": (Shape(argv=("sh", "-c", re.escape(STOP_SCOPES), "stop"), more=_SCOPE),),
    "stop_leaking_unit": (
        Shape(argv=("systemctl", "stop|disable|mask", "--", UNIT)),
        Shape(argv=("systemctl", "daemon-reload")),
        Shape(
            argv=(
                *("install", "-D", "-m", "644", "-T", "/dev/stdin"),
                rf"/etc/systemd/system/{UNIT}\.d/90-zombiescope\.conf",
            ),
            stdin=rf"{_LIMITED}|\[Service\]\nRestart=no\n",
        ),
    ),
    "thaw": (
        Shape(argv=("tee", rf"{_CGROUP}/freezer\.state"), stdin="THAWED"),
        Shape(argv=("tee", rf"{_CGROUP}/cgroup\.freeze"), stdin="0"),
    ),
}
_OWN_PYTHON = (r"/.*/python[\d.]*", "-I", r"/.*/own_python\.py", r"zombiescope\.(?:treatment|kubernetes)\.\w+_command")


def is_ours(remedy: str, subject: str, argv: Sequence[str], stdin: str) -> bool:
    """Whether this remedy plans such a command for this subject."""
    unit = subject.removeprefix("unit:")
    about = unit if is_unit(unit) and unit.endswith(".service") else "\0"  # no word has that
    return any(shape.fits(argv, stdin, about) for shape in SHAPES.get(remedy, ()))


def is_own_program(argv: Sequence[str]) -> bool:
    """Whether it runs a module of ours: by a path that the pod has, and the node has not."""
    return len(argv) > len(_OWN_PYTHON) and all(map(re.fullmatch, _OWN_PYTHON, argv))
