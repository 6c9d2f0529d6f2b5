"""Figures that a node sent may be no numbers; a browser reads no JSON with these in it: they become unknown."""

from __future__ import annotations

from math import isfinite
from typing import Any


def finite(shape: Any) -> Any:
    """The same with None for every infinity and every NaN."""
    if isinstance(shape, dict):
        return {key: finite(it) for key, it in shape.items()}
    if isinstance(shape, list | tuple):
        return [finite(it) for it in shape]
    return None if isinstance(shape, float) and not isfinite(shape) else shape
