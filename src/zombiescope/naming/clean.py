"""Names as text that can be stored: bytes that are not UTF-8 are shown by their number, as \\xff."""

from __future__ import annotations

import codecs

_LONGEST = 15  # bytes of a thread's name; the kernel cuts longer ones anywhere (TASK_COMM_LEN)


def clean(name: str) -> str:
    """A name with odd bytes, which Python keeps as lone surrogates, in characters that Arrow takes."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def thread_name(name: str) -> str:
    """The same for the name of a thread: half a character at its end, left by the kernel's cut, is dropped."""
    if name.isascii():
        return name
    raw = name.encode("utf-8", "surrogateescape")
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return decoder.decode(raw, final=len(raw) < _LONGEST)
