"""The shapes, the door, the record: all that the rooms share. What needs numpy (timeline, samples) is not here.

Each file is loaded when something of it is first asked for: to name an error does not take all shapes, 30 ms.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zombiescope.core.errors import *  # noqa: F403
    from zombiescope.core.host import Host as Host
    from zombiescope.core.model import *  # noqa: F403
    from zombiescope.core.words import *  # noqa: F403


def __getattr__(name: str) -> Any:
    for file in () if name.startswith("_") else ("errors", "words", "host", "model"):  # those that cost least first
        module = import_module(f"zombiescope.core.{file}")
        if hasattr(module, name):
            return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"zombiescope.core has no {name}")
