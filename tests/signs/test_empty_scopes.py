"""empty_scopes: those that stay are counted and named by kind; a busy node's few are not."""

from __future__ import annotations

from tests.nodes import node, read

from zombiescope.core import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import empty_scopes


def case(*counts: float) -> Case:
    names = " ".join(f"run-{number}.scope" for number in range(11, 15)) + " session-7.scope"
    readings: list[Reading] = []
    for place, count in enumerate(counts):
        readings += [
            read("empty_scopes", "node", count, 30.0 * place, names if count else ""),
            read("scopes", "node", count + 12, 30.0 * place),
        ]
    return examine(node(readings), signs={"empty_scopes": empty_scopes}, laws={})


def test_what_stays_is_counted_and_named() -> None:
    (found,) = case(0, 300, 450).findings
    assert found.subject == "node" and found.says.startswith("keeps 450 of 462 scopes without a process, 150 more")
    assert found.says.endswith("run-<n>.scope, session-<n>.scope")
    assert [it.what for it in found.evidence] == ["empty_scopes", "scopes"]


def test_silent() -> None:
    result = case(0, 99, 3)
    assert not result.findings and result.verdicts[0].state == "clear"
    assert result.verdicts[0].says == "3 empty scopes" and result.verdicts[0].evidence
