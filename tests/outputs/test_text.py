"""The text report: the answer first, within one screen, and everything else with -v; six of them as golden files."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.nodes import T0
from tests.outputs.reports import GOLDEN, REPORTS, report
from tests.outputs.test_outputs import finding, full_case
from tests.zones import in_zone

from zombiescope.core import Case, Span, Verdict
from zombiescope.core.timeline import Timeline
from zombiescope.outputs import text
from zombiescope.outputs._lines import wrapped


def shown(case: Case, *, evidence: bool = False) -> str:
    out = io.StringIO()
    (text.write_evidence if evidence else text.write)(case, Timeline(), out)
    return out.getvalue()


@pytest.mark.parametrize("name", REPORTS)
def test_golden(name: str, tmp_path: Path) -> None:
    """ZOMBIESCOPE_GOLDEN=write writes them anew: read them aloud before you commit."""
    said = report(name, tmp_path)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ZOMBIESCOPE_GOLDEN") == "write":
        path.write_text(said)
    assert said == path.read_text()
    lines = said.splitlines()
    assert len(lines) <= 35 and max(map(len, lines)) <= 100, "one screen"


def test_the_incident_s_first_lines_answer_what_a_person_asks(tmp_path: Path) -> None:
    lines = report("incident", tmp_path).splitlines()
    assert lines[1].startswith("PROBLEM  ecs.service keeps crashing")
    labels = [line.split()[0] for line in lines[2:12] if line.startswith("  ") and not line.startswith("   ")]
    assert labels[:5] == ["costs", "since", "broke", "sure", "next"]
    assert "2 × driver reset (eth0)" in "\n".join(lines)


def test_with_evidence_nothing_is_hidden_and_each_stack_is_shown_once(tmp_path: Path) -> None:
    whole = report("incident", tmp_path, evidence=True)
    assert whole.count("memcg_numa_stat_show;mem_cgroup_node_nr_lru_pages") == 1
    assert "«(the stack above)»" in whole and "OK  blocked_tasks" in whole
    assert max(map(len, whole.splitlines())) <= 100


def test_v_shows_what_the_short_report_leaves_out() -> None:
    whole = shown(full_case(), evidence=True)
    for words in (
        "with walk.MANY=7",
        "↓ amounts match:",
        "? other possible cause:",
        "no cause found; could not be checked: walk",
        "2 of 3 walk follow leak; 38 of 40 leak led to none",
        "could not look: dark: /dev/kmsg: permission denied",
        "→ run as root",
        "broken: ours: KeyError",
        "OK  well: looked",
        "zombiescope fix",
        "… 6 more readings",
    ):
        assert words in whole, words


def test_the_verdict_is_one_of_three_words() -> None:
    span = Span(T0, T0 + 1)
    blind = Case(node="n", kernel="k", span=span, verdicts=(Verdict(sign="dark", state="blind", says="no"),))
    clear = Case(node="n", kernel="k", span=span, verdicts=(Verdict(sign="well", state="clear"),))
    for case, word in ((full_case(), "PROBLEM"), (blind, "NOT SURE"), (clear, "OK")):
        lines = [line.partition("  ")[0] for line in shown(case).splitlines()]
        assert word in lines[:4] and not {"PROBLEM", "NOT SURE", "OK"} - {word} & set(lines)


def test_many_chains_alike_are_counted_not_repeated() -> None:
    alike = tuple(finding("core", at) for at in range(20))
    said = shown(Case(node="n", kernel="k", span=Span(T0, T0 + 60), findings=alike))
    assert said.count("  again: ") == 3 and "… and 16 more like it (core)" in said


@pytest.fixture
def helsinki() -> Iterator[None]:
    with in_zone("Europe/Helsinki"):
        yield


@pytest.mark.usefixtures("helsinki")
def test_times_are_in_utc_and_in_the_reader_s_zone(tmp_path: Path) -> None:
    lines = report("incident", tmp_path).splitlines()
    assert "21:20:00 UTC (23:20:00 EET)" in " ".join(lines[:6])
    assert any(line.startswith("  21:20:38 23:20:38  eth0") for line in lines)
    assert len(lines) <= 37, "the screen holds it there too"


def test_a_narrow_terminal_wraps_and_a_wide_one_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text, "WIDTH", 60)
    assert max(map(len, report("incident", tmp_path).splitlines())) <= 60


def test_a_long_end_is_cut_on_a_narrow_terminal() -> None:
    for width in (20, 40, 60, 80, 120):
        shown = list(wrapped("many words " * 40, width, rest="    ", end=f" → do {'this ' * 9}now", most=2))
        assert len(shown) == 2
        assert all(len(line.text) <= max(width, 40) for line in shown)
    assert shown[-1].text.endswith("… → do this this this this this this this this this now")
