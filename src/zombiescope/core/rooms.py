"""Find what lives in a room: every file is a member, its name is its address.

No decorators, no base classes, no registry. A member that cannot be loaded, or that raises what nobody expected,
is *broken*: it costs its own answer and nobody else's.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

from zombiescope.core.errors import Unparsable, Unreadable, UserError

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Broken:
    """A member that failed by our own fault, and how."""

    why: str


def names(room: str) -> list[str]:
    """The members of a room, without loading any of them."""
    package = importlib.import_module(f"zombiescope.{room}")
    return sorted(found.name for found in pkgutil.iter_modules(package.__path__) if not found.name.startswith("_"))


def load(room: str, name: str) -> ModuleType:
    return importlib.import_module(f"zombiescope.{room}.{name}")


def members(room: str) -> dict[str, ModuleType | Broken]:
    """Every member of a room by its name; one that cannot be imported is Broken."""
    return {name: guarded(lambda name=name: load(room, name)) for name in names(room)}  # type: ignore[misc]


def healthy(room: str) -> dict[str, ModuleType]:
    """The members of a room that can be imported."""
    return {name: member for name, member in members(room).items() if not isinstance(member, Broken)}


def guarded(act: Callable[[], Answer]) -> Answer | Broken:
    """What `act` returns, or Broken. The one place where any exception is caught, and only here.

    Our own three errors pass through: they are answers. Under ZOMBIESCOPE_DEBUG=1 everything does.
    """
    try:
        return act()
    except (Unreadable, Unparsable, UserError):
        raise
    except Exception as error:
        if os.environ.get("ZOMBIESCOPE_DEBUG") == "1":
            raise
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
        return Broken(f"{type(error).__name__}: {error}{where}")
