"""Settings: every key is a flag, mistakes are one clear line, secrets are private."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.agent.settings import Settings
from zombiescope.cli._agent_keys import KEYS, settings_of
from zombiescope.core import UserError

GOOD = """
dir = "/tmp/x"
listen = "127.0.0.1:1"
every = "30s"
window = 600
budget = "2%"
max-bytes = "500M"
hz = 19
set = ["saturated_core.FULL=0.8"]
"""


def file(folder: Path, text: str) -> str:
    path = folder / "agent.toml"
    path.write_text(text)
    return str(path)


def test_every_setting_is_a_key_and_every_key_a_setting() -> None:
    assert {it.name for it in dataclasses.fields(Settings)} == {*KEYS, "set"}


def test_a_file_and_flags_before_it(tmp_path: Path) -> None:
    found = settings_of(file(tmp_path, GOOD), {"hz": 99, "every": None}, ("harm.WAITED=0.2",))
    assert (found.every, found.window, found.budget, found.max_bytes, found.hz) == (30, 600, 0.02, 500 * 10**6, 99)
    assert found.set == ("saturated_core.FULL=0.8", "harm.WAITED=0.2")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lisen = 1", "no such key: lisen; did you mean listen?"),
        ("zzz = 1", "no such key: zzz; there are dir, host, listen"),
        ("every = true", "every: neither a text nor a number"),
        ("every = '5 parsecs'", "every: '5 parsecs' is not a number of seconds"),
        ("[agent]\nevery = 1", "no such key: agent"),
        ("every = 400", "window: must be at least twice"),
        ("budget = '200%'", "not a share of one core"),
        ("listen = 'here'", "listen: 'here' is not HOST:PORT"),
        ("listen = '0.0.0.0:9479'", "give token-file or tls-client-ca-file too"),
        ("listen = ':9479'", "give token-file or tls-client-ca-file too"),
        ("listen = '[::]:9479'", "give token-file or tls-client-ca-file too"),
        ("webhook = 'ftp://x/'", "is not an http:// or https:// address"),
        ("webhook = 'http://me:secret@x/'", "a password does not belong in an address"),
        ('alertmanager = "http://x\\ny/"', "is not an http:// or https:// address"),
        ("textfile = '/nowhere'", "no such folder"),
        ("set = 'x'", "set: a list"),
        ("set = ['nobody.FULL=1']", "no sign, probe or law is called 'nobody'"),
        ("every = ", "not TOML"),
        ("log-format = 'xml'", "neither text nor json"),
        ("bpf = 'no'", "bpf: 'no' is neither on nor off"),
    ],
)
def test_a_mistake_in_the_file(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError) as met:
        settings_of(file(tmp_path, text), {}, ())
    assert says in str(met.value) and "\n" not in str(met.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError):
            settings_of(str(path), {}, ())


@pytest.mark.parametrize(
    ("mode", "text", "says"),
    [(0o644, "a" * 32, "chmod 600"), (0o600, "short", "16 or more"), (0o600, "has spaces in it, many", "one word")],
)
def test_tokens(tmp_path: Path, mode: int, text: str, says: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(UserError, match=says):
        settings_of("", {"token_file": str(path)}, ())


def test_with_a_token_it_may_listen_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a" * 32 + "\n")
    path.chmod(0o600)
    assert settings_of("", {"token_file": str(path), "listen": "0.0.0.0:1"}, ()).listen == "0.0.0.0:1"
    with pytest.raises(UserError, match="open-loopback: token-file and tls-client-ca-file say otherwise"):
        settings_of("", {"token_file": str(path), "open_loopback": "on"}, ())


@pytest.mark.e2e
def test_a_mistake_is_one_line(zombiescope: Run, tmp_path: Path) -> None:
    done = zombiescope("agent", "--config", file(tmp_path, "lisen = 1"), expect=2)
    assert done.stderr.count("\n") == 1 and "no such key: lisen" in done.stderr
