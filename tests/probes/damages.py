"""What a hostile root may put in the place of a file: other content, another kind of file, nothing at all."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, str], None]


def content(make: Callable[[str], bytes | str]) -> Damage:
    """The file with other content; a folder or a link becomes such a file."""

    def damage(path: Path, text: str) -> None:
        made = make(text)
        path.write_bytes(made.encode("utf-8", "surrogateescape") if isinstance(made, str) else made)

    return damage


def numbers(other: str, *, in_names: bool = False) -> Damage:
    """Every number another one, also those within names (cpu0) if asked."""
    pattern = r"\d+" if in_names else r"(?<![\w.])\d[\d.]*"
    return content(lambda text: re.sub(pattern, other, text))


def names(other: str, *, keep: bool = True) -> Damage:
    """Every name with something odd after it, or in its place, but for those that say what a line is."""
    pattern = re.compile(r"\b(?!cgroup|cpu\d|CPU|nr_desc|MemTotal)[A-Za-z_]{3,}\b")
    return content(lambda text: pattern.sub(lambda name: name[0] * keep + other, text))


def root_of(path: Path) -> Path:
    return next(parent for parent in path.parents if (parent / "at").exists())


def outside(path: Path, text: str) -> None:
    """A link to a good file, or folder, that is not in the root."""
    root = root_of(path)
    target = root.parent / f"outside-{root.name}-{str(path.relative_to(root)).replace('/', '-')}"
    if text:
        target.write_text(text)
    else:
        target.mkdir()
    path.symlink_to(target)


def large(path: Path, _text: str) -> None:
    """Twenty million letters, written once for all tests: more than any file that we read may have."""
    letters = root_of(path).parent.parent / "letters"
    if not letters.exists():
        letters.write_bytes(b"A" * 20_000_000)
    os.link(letters, path)


DAMAGES: dict[str, Damage] = {
    "missing": lambda _path, _text: None,
    "empty": content(lambda _text: ""),
    **{f"cut at {n}/7": content(lambda text, n=n: text[: len(text) * n // 7]) for n in range(1, 7)},  # type: ignore[misc]
    "random": content(lambda text: random.Random(len(text)).randbytes(4096)),
    "not UTF-8": content(lambda text: text.encode().replace(b"e", b"\xff").replace(b"1", b"\xfe")),
    "a folder": lambda path, _text: path.mkdir(),
    "a FIFO": lambda path, _text: os.mkfifo(path),
    "leads out": outside,
    "leads to itself": lambda path, _text: path.symlink_to(path),
    "20 MB": large,
    "long lines": content(lambda _text: ("A" * 1_000_000 + "\n") * 3),
    "10**400": numbers("1" + "0" * 400),
    "10**400 in names": numbers("1" + "0" * 400, in_names=True),
    "10**308": numbers("1" + "0" * 308),
    "5000 digits": numbers("9" * 5000),
    "5000 digits in names": numbers("9" * 5000, in_names=True),
    "negative": numbers("-7"),
    "nan": numbers("nan"),
    "inf": numbers("inf"),
    "ANSI": names("\x1b[31m\x1b]0;evil\x07"),
    "newlines": names("\n"),
    "form feeds": names("\x0c"),
    "digits for names": names("9" * 5000, keep=False),
    "surrogates": names("\udcff"),
}
NOT_CONTENT = ("missing", "empty", "a folder", "a FIFO", "leads out", "leads to itself")  # for a folder or a link
ALL_UNSEEN = (*NOT_CONTENT, "20 MB", "long lines", "random")
