"""YAML as kubectl writes it, and no more: block mappings and lists, scalars on one line. JSON too.

A kubeconfig is read on nodes, where a YAML library would be one more dependency for one small file. What is not in
that form (anchors, tags, folded texts, tabs) is refused with its line; `kubectl config view --raw` writes it anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from zombiescope.core import Unparsable

MOST_LINES = 50_000
MOST_DEPTH = 50
_KEY = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s'"#&*!|>%@`{}\[\],?:-][^:#]*?|-[^\s:#][^:#]*?)\s*:(?:\s+(?P<rest>.*))?"""
)
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d{0,17})")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def loads(text: str, source: str) -> Any:
    """What a document says; Unparsable with the line that is not understood."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Unparsable(source, getattr(error, "lineno", 1), str(error)) from None
    lines = list(_lines(text, source))
    if not lines:
        return None
    found, after = _block(lines, 0, lines[0].indent, source, 0)
    if after < len(lines):
        raise Unparsable(source, lines[after].number, lines[after].text)
    return found


def _lines(text: str, source: str) -> list[_Line]:
    found: list[_Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        bare = raw.strip(" ")
        if not bare or bare.startswith("#") or (bare == "---" and not found):
            continue
        if "\t" in raw or number > MOST_LINES:
            raise Unparsable(source, number, raw)
        found.append(_Line(number, len(raw) - len(raw.lstrip(" ")), bare))
    return found


def _block(lines: list[_Line], at: int, indent: int, source: str, depth: int) -> tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise Unparsable(source, lines[at].number, "too deep")
    if lines[at].text == "-" or lines[at].text.startswith("- "):
        return _sequence(lines, at, indent, source, depth)
    return _mapping(lines, at, indent, source, depth)


def _sequence(lines: list[_Line], at: int, indent: int, source: str, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text + " ").startswith("- "):
        line = lines[at]
        inner = line.text[1:].lstrip(" ")
        if not inner:
            value, at = _below(lines, at, indent, source, depth)
        elif _KEY.fullmatch(inner) or inner.startswith("- "):
            # "- name: x" opens a mapping that goes on at the column of `name`.
            column = indent + len(line.text) - len(inner)
            lines[at] = _Line(line.number, column, inner)
            value, at = _block(lines, at, column, source, depth + 1)
        else:
            value, at = _scalar(inner, line, source), at + 1
        items.append(value)
    return items, at


def _mapping(lines: list[_Line], at: int, indent: int, source: str, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        parts = _KEY.fullmatch(line.text)
        if parts is None:
            raise Unparsable(source, line.number, line.text)
        key, rest = str(_scalar(parts["key"], line, source)), _uncommented(parts["rest"] or "")
        if key in found:
            raise Unparsable(source, line.number, f"{key} stands there twice")
        if rest:
            found[key], at = _scalar(rest, line, source), at + 1
        else:
            found[key], at = _below(lines, at, indent, source, depth, lists=True)
    return found, at


def _below(
    lines: list[_Line], at: int, indent: int, source: str, depth: int, *, lists: bool = False
) -> tuple[Any, int]:
    """What stands indented under a line; nothing at all is null. kubectl does not indent a list under its key."""
    after = at + 1
    if after < len(lines) and lines[after].indent > indent:
        return _block(lines, after, lines[after].indent, source, depth + 1)
    if lists and after < len(lines) and lines[after].indent == indent and (lines[after].text + " ").startswith("- "):
        return _sequence(lines, after, indent, source, depth + 1)
    return None, after


def _uncommented(text: str) -> str:
    if text[:1] in ("'", '"'):
        return text
    return "" if text.startswith("#") else text.partition(" #")[0].rstrip()


def _scalar(text: str, line: _Line, source: str) -> Any:
    if text[:1] == '"':
        try:
            return str(json.loads(text))  # kubectl escapes as JSON does
        except ValueError:
            raise Unparsable(source, line.number, line.text) from None
    if text[:1] == "'":
        if not re.fullmatch(r"'(?:[^']|'')*'", text):
            raise Unparsable(source, line.number, line.text)
        return text[1:-1].replace("''", "'")
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if text[:1] in "&*!|>%@`{[" or ": " in text or text.endswith(":"):
        raise Unparsable(source, line.number, line.text)
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _NUMBER.fullmatch(text) else text
