"""docs/security.md names every destination and all that acts by itself: compared with the settings that exist."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Iterator

from tests.conftest import PROJECT

from zombiescope.__main__ import command_parser
from zombiescope.agent.settings import Settings

PAGE = (PROJECT / "docs" / "security.md").read_text()
SECTIONS = ("What leaves the node", "What acts by itself")
# Settings that neither lead anything out of the node nor let anything be changed. A new one is in the tables, or here
# with its reason.
LOCAL = {
    "host": "where the node is read",
    "per_core": "how many series there are",
    "native_histograms": "in which form",
    "every": "how often it looks",
    "window": "how far back",
    "quiet": "when a finding ends",
    "budget": "what it may cost",
    "hz": "how often it samples",
    "log_format": "of its own log",
    "set": "thresholds",
}
LEADS_OUT = re.compile(r"URL|HOST|PORT|ADDRESS")  # what an option's value is called


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def named() -> set[str]:
    """Settings in the tables and the lines below them."""
    text = "".join(section(it) for it in SECTIONS)
    return {word.replace("-", "_") for word in re.findall(r"`([a-z][a-z-]*)`", text)}


def test_every_setting_is_in_the_tables_or_stays_on_the_node() -> None:
    settings = {it.name for it in dataclasses.fields(Settings)}
    assert settings - named() - LOCAL.keys() == set(), "say in docs/security.md where it leads, or what it allows"
    assert not LOCAL.keys() - settings and not LOCAL.keys() & named()


def test_every_row_begins_with_what_exists() -> None:
    """A row of a setting that has gone is a claim about nothing."""
    rows = re.findall(r"^\| (`[^|]*)\|", section(SECTIONS[0]).partition("| a command sends")[0], re.MULTILINE)
    keys = {word.replace("-", "_") for row in rows for word in re.findall(r"`([a-z-]+)`", row)}
    assert len(rows) >= 6 and keys <= {it.name for it in dataclasses.fields(Settings)}


def test_what_is_named_as_a_url_is_a_destination_in_a_row_of_its_own() -> None:
    """Those settings that are checked as an address, or hold one."""
    text = (PROJECT / "src/zombiescope/agent/settings.py").read_text()
    checked = re.search(r"for key in \(([^)]*)\):\n        _check_url", text)
    assert checked
    urls = {*re.findall(r'"(\w+)"', checked[1]), "ship"}
    rows = re.findall(r"^\| (`[^|]*)\|", section(SECTIONS[0]), re.MULTILINE)
    assert urls <= {word.replace("-", "_") for row in rows for word in re.findall(r"`([a-z-]+)`", row)}


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from _options(one)
        elif action.option_strings and LEADS_OUT.search(str(action.metavar or "")):
            yield action.option_strings[-1]


def test_every_option_that_leads_out_is_in_the_tables() -> None:
    found = {it.removeprefix("--").replace("-", "_") for it in _options(command_parser())}
    assert {"webhook", "store", "listen", "ray"} <= found
    shown = named() | {it.replace("-", "_") for it in re.findall(r"`--([a-z-]+)`", section(SECTIONS[0]))}
    # Links that a page shows, which nobody follows but a person.
    assert found - shown == {"agents"}


def test_the_summary_claims_no_more_than_the_tables() -> None:
    summary = re.search(r"^## Summary\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert summary and "Nothing leaves the node." not in PAGE and "the agent never does" not in PAGE
    for title in SECTIONS:
        assert f"](#{title.lower().replace(' ', '-')})" in summary[1]


def test_every_attack_that_is_tested_is_listed_and_every_one_listed_is_tested() -> None:
    rows = re.findall(r"^\| .* \| `(\w+)` \|$", section("Attacks that are tested"), re.MULTILINE)
    files = [path.stem.removeprefix("test_") for path in (PROJECT / "tests" / "attacks").glob("test_*.py")]
    assert sorted(set(rows)) == sorted(files)
