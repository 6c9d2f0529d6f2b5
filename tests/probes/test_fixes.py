"""Cures are told as they are made, each event once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.treatment.killed_at_a_step import MACHINE, plan, tell
from tests.treatment.test_apply import writing

from zombiescope.core import Host, Unreadable
from zombiescope.places.own_folders import LEDGER_ENVIRONMENT
from zombiescope.probes import fixes
from zombiescope.treatment.apply import apply, undo
from zombiescope.treatment.ledger import Ledger


@pytest.mark.usefixtures("cure")
def test_a_cure_and_its_undoing_are_told_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEDGER_ENVIRONMENT, str(tmp_path / "ledger"))
    with fixes.watch(Host()) as look:
        with pytest.raises(Unreadable, match="no fix was ever made"):
            list(look())
        apply(plan(writing(tmp_path / "x", "1")), MACHINE, Ledger(), tell)
        assert [(it.subject, it.text) for it in look()] == [
            ("fix:1", "cure for node: begun"),
            ("fix:1", "cure for node: finished"),
        ]
        assert list(look()) == []
        undo("1", MACHINE, Ledger(), tell)
        assert [it.text for it in look()] == ["cure for node: undone"]


def test_what_is_no_ledger_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "var/lib/zombiescope/fixes.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'\xff\n[]\n{"fix": 1}\n{"fix": 1, "event": "finished", "at": 1e9}\n{"fix": 2, "event": "planned"')
    assert list(fixes.read(Host(str(tmp_path), live=False))) == []
