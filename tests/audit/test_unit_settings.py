"""One unit's settings as systemd reads them: syntax, what it pulls in and triggers, names, start limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.audit.small_roots import LIB, unit
from tests.files import node_of

from zombiescope.audit.unit_file import dropped_in, is_template, template
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.audit.unit_syntax import parse, seconds


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("[A]\nK=1\n[B]\nK=2\n", {("A", "K"): ["1"], ("B", "K"): ["2"]}),
        ("[Open\nK=1\n", {("", "K"): ["1"]}),
        ("Closed]\nK=1\n", {("", "K"): ["1"]}),
        ("[A]\nK=[1]\nL=2\n", {("A", "K"): ["[1]"], ("A", "L"): ["2"]}),
        ("[A]\n K = 1 2 \n", {("A", "K"): ["1 2"]}),
        ("[A]\nno setting\n", {}),
        ("[A]\nK=1\\\n 2\\\n", {("A", "K"): ["1 2"]}),  # the file ends within a line
        ("[A]\nK=1 \\\n# between\n; too\n2\n", {("A", "K"): ["1  2"]}),
        ("[A]\n#K=1\n;K=2\n\nK=3\n", {("A", "K"): ["3"]}),
        ("[A]\nK=a=b\nK=\nK=c\n", {("A", "K"): ["c"]}),
        ("[A]\nK=1\\\n\nL=2\n", {("A", "K"): ["1"], ("A", "L"): ["2"]}),  # an empty line ends it
        ("[A]\nK=1\\", {("A", "K"): ["1"]}),
        ("\\\n", {}),
        ("\ufeff[A]\nK=1\n", {("A", "K"): ["1"]}),
    ],
)
def test_syntax(text: str, settings: dict[tuple[str, str], list[str]]) -> None:
    assert parse(text) == settings


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5us", 5e-6),
        ("5ms", 5e-3),
        ("1.5h", 5400),
        ("1d 2h", 93600),
        ("2w", 1209600),
        ("5 m", 300),
        ("5parsecs", 7),
        ("5 5parsecs", 7),
        ("1m 1y2", 7),
        ("-5", 7),
        (" infinity ", float("inf")),
        ("1" + " " * 99, 1),
        (("1 " * 50), 50),
        (("1 " * 51), 7),
        ("1s " * 33 + "1", 34),
    ],
)
def test_spans(text: str, value: float) -> None:
    assert seconds(text, 7.0) == pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "text", "triggered"),
    [
        ("a.socket", "", ["a.service"]),
        ("a.socket", "[Socket]\nService=b.service\n", ["b.service"]),
        ("a.socket", "[Socket]\nAccept=yes\nService=b.service\n", ["a@.service"]),
        ("a.socket", "[Socket]\nAccept=TRUE\n", ["a@.service"]),
        ("a.socket", "[Socket]\nAccept=no\n", ["a.service"]),
        ("a@x.socket", "[Socket]\nAccept=1\n", ["a@x.service"]),
        ("a.timer", "[Timer]\nUnit=b.target\n", ["b.target"]),
        ("a.timer", "[Path]\nUnit=b.service\n", ["a.service"]),
        ("a.path", "[Path]\nUnit=%p-x.service\n", ["a-x.service"]),
        ("a.path", "[Path]\nUnit=%h.service\n", ["a.service"]),
        ("a.automount", "", ["a.mount"]),
        ("a.service", "", []),
        ("a.target", "", []),
    ],
)
def test_what_a_unit_triggers(name: str, text: str, triggered: list[str]) -> None:
    assert list(unit(name, text).triggers()) == triggered


def test_what_a_unit_pulls_in() -> None:
    text = (
        "[Unit]\nWants=a.service 'b.service' \"c.socket\"\nRequires=d.mount\nBindsTo=e.swap\nUpholds=f.service\n"
        "Requisite=g.service\nAfter=h.service\nConflicts=i.service\n"
        "Wants=no-unit %p@%i.service %j.target %%.slice %H.path\n"
        "[Service]\nSockets=k.socket\n"
    )
    found = list(unit("my-own@x.service", text).pulls())
    wants = ["a.service", "b.service", "c.socket", "my-own@x.service", "own.target", "%.slice"]
    assert found == ["d.mount", "e.swap", *wants, "f.service", "k.socket"]


def test_of_a_setting_the_last_counts_and_of_a_list_all() -> None:
    it = unit("a.service", "[Service]\nRestart=no\nRestart=always\n[Install]\nWantedBy=a.target\nWantedBy=b.target\n")
    assert it.last("Service", "Restart") == "always" and it.last("Service", "Type", "simple") == "simple"
    assert it.words("Install", "WantedBy") == ["a.target", "b.target"]
    assert unit("a.service", "[Service]\nRestart=always\nRestart=\n").last("Service", "Restart", "no") == "no"


@pytest.mark.parametrize(
    ("text", "installable"),
    [
        ("WantedBy=x", True),
        ("RequiredBy=x", True),
        ("UpheldBy=x", True),
        ("Alias=x", True),
        ("Also=x", False),
        ("", False),
    ],
)
def test_what_can_be_enabled(text: str, installable: bool) -> None:
    assert unit("a.service", f"[Install]\n{text}\n").installable is installable


def test_what_starts_is_pulled_in_and_not_masked() -> None:
    assert unit("a.service", enabled_by=("x.target",)).starts
    assert not unit("a.service", enabled_by=("x.target",), masked=True).starts and not unit("a.service").starts


def test_names() -> None:
    assert [template(it) for it in ("a@b.service", "a@.service", "a.service")] == ["a@.service"] * 2 + ["a.service"]
    assert [is_template(it) for it in ("a@.service", "a@b.service", "a.service")] == [True, False, False]
    assert dropped_in("a.service") == ["a.service"]
    assert dropped_in("a-b-c.service") == ["a-b-c.service", "a-b-.service", "a-.service"]
    assert dropped_in("a-b@x.service") == ["a-b@x.service", "a-@x.service", "a-b@.service", "a-@.service"]
    assert dropped_in("a-.service") == ["a-.service"]


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ("[Unit]\nStartLimitIntervalSec=1\nStartLimitBurst=2\n", (1.0, 2)),
        ("[Unit]\nStartLimitInterval=3\n[Service]\nStartLimitBurst=4\n", (3.0, 4)),
        ("[Service]\nStartLimitInterval=5\n", (5.0, 7)),
        ("[Unit]\nStartLimitBurst=123456789\n", (60.0, 123456789)),
        ("[Unit]\nStartLimitBurst=1234567890\n", (60.0, 7)),
        ("[Unit]\nStartLimitBurst=-1\nStartLimitIntervalSec=x\n", (60.0, 7)),
    ],
)
def test_start_limits_by_their_old_and_new_names(tmp_path: Path, settings: str, policy: tuple[float, int]) -> None:
    manager = "[Manager]\nDefaultStartLimitInterval=60\nDefaultStartLimitBurst=9\n"
    host = node_of(
        tmp_path,
        {
            f"{LIB}/a.service": settings,
            "usr/lib/systemd/system.conf": "[Manager]\nDefaultRestartSec=3\n",
            "etc/systemd/system.conf": manager,
            "etc/systemd/system.conf.d/x.conf": "[Manager]\nDefaultStartLimitBurst=7\n",
            "usr/lib/systemd/system.conf.d/x.conf": "[Manager]\nDefaultStartLimitBurst=8\n",
        },
    )
    files = UnitFiles(host)
    found = files.policy(files.unit("a.service"))
    assert (found.interval, found.burst) == policy and found.pause == 0.1, "of two system.conf the first counts"
