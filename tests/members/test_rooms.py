"""Rooms: members are found by their files, and one that fails costs its own answer only."""

from __future__ import annotations

from pathlib import Path

import pytest

import zombiescope
from zombiescope.core import Unparsable, Unreadable, UserError
from zombiescope.members.rooms import Broken, guarded, healthy, load, members, names

PACKAGE = Path(zombiescope.__file__).parent
DEBUG = "ZOMBIESCOPE_DEBUG"


def fail(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize("room", ["probes", "signs", "laws", "remedies", "outputs", "cli"])
def test_every_file_is_a_member_but_those_that_begin_with_an_underscore(room: str) -> None:
    files = sorted(path.stem for path in (PACKAGE / room).glob("*.py") if not path.stem.startswith("_"))
    assert names(room) == list(members(room)) == files
    assert all(member.__name__ == f"zombiescope.{room}.{name}" for name, member in healthy(room).items())


def test_what_is_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        load("probes", "no_such_probe")
    with pytest.raises(ModuleNotFoundError):
        names("no_such_room")


def test_an_answer_passes() -> None:
    assert guarded(lambda: 7) == 7
    assert guarded(lambda: None) is None


@pytest.mark.parametrize(
    "error",
    [Unreadable("/proc/x", "gone"), Unparsable("/proc/x", 3, "?"), UserError("no")],
    ids=lambda it: type(it).__name__,
)
@pytest.mark.parametrize("debug", ["", "1"])
def test_our_own_errors_pass(error: Exception, debug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEBUG, debug)
    with pytest.raises(type(error)) as caught:
        guarded(lambda: fail(error))
    assert caught.value is error


@pytest.mark.parametrize(
    "error", [KeyError("k"), ZeroDivisionError("by nought"), RecursionError(), OSError(5, "io"), MemoryError()]
)
@pytest.mark.parametrize("debug", [None, "", "0"])
def test_any_other_error_is_broken_with_its_place(
    error: Exception, debug: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if debug is None:
        monkeypatch.delenv(DEBUG, raising=False)
    else:
        monkeypatch.setenv(DEBUG, debug)
    line = fail.__code__.co_firstlineno + 1
    assert guarded(lambda: fail(error)) == Broken(f"{type(error).__name__}: {error} (test_rooms.py:{line})")


def test_debug_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEBUG, "1")
    with pytest.raises(KeyError):
        guarded(lambda: fail(KeyError("k")))


def test_who_wants_to_stop_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: fail(KeyboardInterrupt()))


class Mute(Exception):
    """One whose text fails too."""

    def __str__(self) -> str:
        raise self


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit("x"), "GeneratorExit: x"),
        (Mute(), "Mute: it has no text"),
        (KeyError("\x1b[31m\n"), "KeyError"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_a_member_cannot_end_the_others_work(error: BaseException, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DEBUG, raising=False)
    held = guarded(lambda: fail(error))
    assert isinstance(held, Broken) and held.why.startswith(says)
    assert held.why.isprintable()
