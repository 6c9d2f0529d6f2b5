"""The plan of `fix`, the HTML report, the JSON and the page of one recording: the same remedies, order and marks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.test_fix import recorded
from tests.conftest import Run
from tests.diagnosis.incident import incident
from tests.nodes import read
from tests.treatment.test_prove import quick_reads

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Marked = list[tuple[str, str, list[str]]]  # a remedy, its risk, and the risk of each step
SAFE, DISRUPTIVE, ADVICE = "safe", "disruptive", "advice"
GOLDEN: Marked = [
    ("stop_leaking_unit", SAFE, [SAFE] * 3),
    ("move_irq_off_core", SAFE, [SAFE]),
    ("move_irq_off_core", SAFE, [SAFE]),
    ("purge_zombies", SAFE, [*[SAFE] * 3, *[DISRUPTIVE] * 3]),
    ("upgrade_kernel", ADVICE, [ADVICE]),
]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> str:
    kubelet = read("unit_active", "unit:kubelet.service", 1, 0.0)
    apart = read("cpu_reserved", "cpu:63", 1, 0.0, "isolated")
    folder = tmp_path_factory.mktemp("remedies") / "rec"
    return recorded(incident(without="stacks", extra=[*quick_reads(), kubelet, apart]), folder)


@pytest.fixture(scope="module")
def told(zombiescope: Run, recording: str) -> Marked:
    shape = json.loads(zombiescope("diagnose", recording, "--format", "json").stdout)
    return [(it["name"], it["risk"], [step["risk"] for step in it["steps"]]) for it in shape["remedies"]]


def test_json(told: Marked) -> None:
    assert told == GOLDEN


def test_html(zombiescope: Run, recording: str) -> None:
    page = zombiescope("diagnose", recording, "--format", "html").stdout
    plan = re.compile(r'<article class="plan"><h3><code>(\w+)</code> <b class="badge (\w+)">(.*?)</article>', re.DOTALL)
    plans = plan.findall(page)
    steps = [re.findall(r'<li>(?:(?!<br>|</li>).)*?(?:<b class="badge (\w+)">|(?=<br>|</li>))', it[2]) for it in plans]
    marked = [(name, risk, [it or risk for it in own]) for (name, risk, _), own in zip(plans, steps, strict=True)]
    assert marked == GOLDEN


def test_the_plan_of_fix(zombiescope: Run, recording: str) -> None:
    """What `fix` means by itself is shown whole, the others by name; both in the order of the rest."""
    plan = zombiescope("fix", "--recording", recording).stdout
    whole, others = plan.split("other plans, each by its name:")
    marked: Marked = []
    for line in re.sub(r"\n {5,}(?!\$)", " ", whole).splitlines():  # lines that were wrapped
        if head := re.match(r"(\w+) \((\w+)\): for", line):
            marked.append((head[1], head[2], []))
        elif re.match(r"  \d+\. ", line):
            mark = re.search(r" \[(\w+)\]$", line)
            marked[-1][2].append(mark[1] if mark else marked[-1][1])
    named = re.findall(r"^  zombiescope fix (\w+) --recording \S+  \((\w+),", others, re.MULTILINE)
    assert marked and [it for it in GOLDEN if it in marked] == marked
    assert named and list(dict.fromkeys(it[:2] for it in GOLDEN if it not in marked)) == named


def test_the_page(zombiescope: Run, recording: str, browser: Browser, tmp_path: Path) -> None:
    zombiescope("view", recording, "-o", str(tmp_path / "page.html"), expect=0)
    with browser.new_context() as context:
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector(".remedy")
        shown = page.evaluate(
            """[...document.querySelectorAll('.remedy')].map(it => [
                 it.querySelector('summary b').textContent, it.querySelector('summary .badge').textContent,
                 [...it.querySelectorAll('li')].map(step => step.querySelector('.badge')?.textContent ?? '')])"""
        )
    assert [(name, risk, [it or risk for it in steps]) for name, risk, steps in shown] == GOLDEN
