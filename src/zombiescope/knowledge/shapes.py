"""An entry of a knowledge file made into its shape: every key is known, every value is of the kind that is meant.

A list where one word is meant, or a word where a list is, would else be believed: "ecs.service" is also a sequence of
letters, and a pattern of one `*` fits to every unit of the node.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import MISSING, fields
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

Shape = TypeVar("Shape")


def shaped(shape: type[Shape], entry: dict[str, Any], **given: Any) -> Shape:
    """The shape of an entry; ValueError says what is wrong. `given` are values that were worked out already."""
    hints, needed = _keys(cast(Hashable, shape))
    if unknown := [key for key in entry if key not in hints]:
        raise ValueError(f"there is no key {unknown[0]!r}; there are {', '.join(hints)}")
    if missing := [key for key in needed if key not in entry and key not in given]:
        raise ValueError(f"it has no {missing[0]}")
    return shape(**{key: _value(key, value, hints[key]) for key, value in entry.items() if key not in given}, **given)


@cache
def _keys(shape: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    needed = (it.name for it in fields(shape) if it.default is MISSING and it.default_factory is MISSING)
    return get_type_hints(shape), tuple(needed)


def _value(key: str, value: Any, hint: Any) -> Any:
    if get_origin(hint) in (tuple, frozenset):
        if not isinstance(value, list) or not all(isinstance(it, str) and it for it in value):
            raise ValueError(f'{key} is a list of texts, such as {key} = ["…"]')
        return tuple(value) if get_origin(hint) is tuple else frozenset(value)
    allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if bool in allowed:
        if not isinstance(value, bool):
            raise ValueError(f"{key} is true or false, not {value!r}")
    elif str in allowed:
        if not isinstance(value, str):
            raise ValueError(f"{key} is a text, not {value!r}")
    elif not isinstance(value, (int, float) if float in allowed else int) or isinstance(value, bool):
        raise ValueError(f"{key} is a number, not {value!r}")
    return value
