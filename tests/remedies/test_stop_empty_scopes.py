"""stop_empty_scopes: only those that are known by name; and a real systemd that was never told of their end."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.nodes import node, read
from tests.remedies.planned import plans, to_nobody

from zombiescope.audit.systemd import system_of
from zombiescope.core import Host, Reading, UserError
from zombiescope.lab import empty_scopes as scenario
from zombiescope.lab._scenario import missing
from zombiescope.probes import systemd_scopes
from zombiescope.signs import empty_scopes
from zombiescope.treatment.apply import Machine, apply, undo
from zombiescope.treatment.ledger import Ledger


def test_in_commands_that_can_be_read() -> None:
    names = [f"run-r{number}.scope" for number in range(70)]
    (plan,) = plans(
        node([read("empty_scopes", "node", 250, 0.0, " ".join(names))]), "stop_empty_scopes", "empty_scopes"
    )
    assert plan.aftermath and plan.risk == "safe"
    assert [len(step.argv) - 4 for step in plan.steps] == [50, 20]
    assert [name for step in plan.steps for name in step.argv[4:]] == names
    assert [step.unit for step in plan.steps] == [names[0], names[50]]


def test_without_names_there_is_nothing_to_stop() -> None:
    assert not plans(node([read("empty_scopes", "node", 250, 0.0)]), "stop_empty_scopes", "empty_scopes")


@pytest.mark.kernel
def test_a_real_systemd_forgets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacking := missing(scenario.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
    monkeypatch.setattr(empty_scopes, "MANY", 10)

    def looked() -> dict[str, Reading]:
        return {it.what: it for it in systemd_scopes.read(Host()) if isinstance(it, Reading)}

    try:
        with scenario.run(20 / scenario.SCOPES):
            before = looked()
            assert (before["scopes"].value, before["empty_scopes"].value) == (21, 20)  # init.scope lives
            (plan,) = plans(node(before.values()), "stop_empty_scopes", "empty_scopes")
            machine, ledger = Machine(Host(), system_of(Host())), Ledger(str(tmp_path))
            assert apply(plan, machine, ledger, to_nobody).state == "finished"
            after = looked()
            assert (after["scopes"].value, after["empty_scopes"].value) == (1, 0)
            # Once more: systemd knows them no longer, which is no failure.
            assert apply(plan, machine, ledger, to_nobody).state == "finished"
            assert [undo(identity, machine, ledger, to_nobody).state for identity in ("2", "1")] == ["undone"] * 2
    except UserError as error:
        pytest.skip(CANNOT + str(error))
