"""A store: made once, whole or not at all, private; the same from a folder and from a bucket."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from zombiescope.core import UserError
from zombiescope.fleet import store
from zombiescope.fleet.store import Missing, Store

KINDS: dict[str, Callable[[Path], str]] = {
    "folder": str,
    "file": lambda it: it.as_uri(),
    "bucket": lambda _: "memory:///",
}


@pytest.fixture(params=list(KINDS))
def kept(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return store.opened(KINDS[request.param](tmp_path / "store"))


def test_of_two_writers_one_wins(kept: Store) -> None:
    assert kept.create("a/b/one", b"first")
    assert not kept.create("a/b/one", b"second")
    assert kept.read("a/b/one") == b"first"
    assert kept.has("a/b/one") and not kept.has("a/b/two")


def test_keys_are_those_below(kept: Store) -> None:
    for key in ("a/1", "a/x/2", "b/3"):
        kept.create(key, b"x")
    assert sorted(kept.keys("a")) == ["a/1", "a/x/2"]
    assert list(kept.keys("nothing")) == []


def test_what_is_removed_is_gone(kept: Store) -> None:
    kept.create("a/1", b"x")
    kept.remove("a/1")
    kept.remove("a/1")
    with pytest.raises(Missing):
        kept.read("a/1")


def test_a_path_has_the_content(kept: Store) -> None:
    kept.create("a/1", b"content")
    assert Path(kept.path("a/1")).read_bytes() == b"content"
    assert Path(kept.path("a/1")).read_bytes() == b"content"  # kept the second time
    assert stat.S_IMODE(os.stat(kept.path("a/1")).st_mode) == 0o600


def test_what_is_being_written_is_not_seen(tmp_path: Path) -> None:
    kept = store.opened(str(tmp_path))
    kept.create("a/1", b"x")
    (tmp_path / "a" / ".half.part").write_bytes(b"ha")
    (tmp_path / "a" / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "a" / "fifo")
    assert list(kept.keys("a")) == ["a/1"]
    for name in ("link", "fifo"):
        with pytest.raises(UserError):
            kept.read(f"a/{name}")


@pytest.mark.parametrize("url", ["ftp://x/y", "file://host/x", ""])
def test_what_is_no_store_is_said(url: str) -> None:
    with pytest.raises(UserError, match="not a store"):
        store.opened(url)


def test_a_collector_cannot_be_read() -> None:
    with pytest.raises(UserError, match="a collector only takes what nodes send"):
        store.opened("https://collector:9480")
