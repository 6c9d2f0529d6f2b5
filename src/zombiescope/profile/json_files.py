"""Profiles that are JSON: of speedscope and what writes its format, of V8 (Node, Chrome), and our own.

Which one it is is seen by its keys. All of it has to be in memory at once, so a file may not be as large as of other
formats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Samples
from zombiescope.profile import cpuprofile, flame_json, speedscope, v8_log

LARGEST_FILE = 128 << 20  # bytes: objects of Python take some ten times as much
_BEGINS = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*\{\s*\")")
_READERS = (flame_json, speedscope, cpuprofile, v8_log)
_KNOWN = (
    "JSON, but no profile that we read: speedscope's, V8's .cpuprofile or `node --prof-process --preprocess`, or what "
    "`flame --format json` writes"
)


def looks_like(beginning: bytes) -> bool:
    return _BEGINS.match(beginning) is not None


def parse(pieces: Iterable[bytes], source: str = "JSON") -> Samples:
    """Parse a profile in pieces of any size."""
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > LARGEST_FILE:
            raise Unparsable(source, LARGEST_FILE, f"larger than {LARGEST_FILE >> 20} MB, too large for JSON")
    found = _loaded(data.decode("utf-8", "surrogateescape"), source)
    if isinstance(found, list) or (isinstance(found, dict) and "traceEvents" in found):
        text = "a trace of events, not a profile; py-spy and others write speedscope's format too"
        raise Unparsable(source, 0, text)
    reader = next((it for it in _READERS if isinstance(found, dict) and it.shaped(found)), None)
    if reader is None:
        raise Unparsable(source, 0, _KNOWN)
    try:
        samples: Samples = reader.read(found, source)
        return samples
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        # Whatever is of another type than the format says: values of JSON are of any.
        raise Unparsable(source, 0, f"not as {reader.FORMAT} is: {type(error).__name__}: {error}") from error


def _loaded(text: str, source: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused)
    except json.JSONDecodeError as error:
        raise Unparsable(source, error.pos, f"damaged JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets in brackets
        raise Unparsable(source, 0, f"damaged JSON: {error}") from error


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
