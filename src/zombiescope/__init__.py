"""zombiescope: why a Linux node that looks healthy starves its work, with evidence.

`import zombiescope as zs` costs nothing: `record`, `open`, `diagnose` and the shapes are loaded when they are used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for true; `typing` would be most of what the import costs
if TYPE_CHECKING:
    from zombiescope.api import Diagnosis, Recording, diagnose, open, record  # noqa: A004
    from zombiescope.core.errors import Unparsable, Unreadable, UserError

__version__ = "0.2.0"
__all__ = ["Diagnosis", "Recording", "Unparsable", "Unreadable", "UserError", "diagnose", "open", "record"]


def __getattr__(name: str) -> object:
    import importlib

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "zombiescope.core.errors" if name.startswith("U") else "zombiescope.api"
    return getattr(importlib.import_module(home), name)
