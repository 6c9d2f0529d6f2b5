"""Kernel messages: every driver's and every age's wording is one kind with one spelling; ordinary lines are nothing."""

from __future__ import annotations

import os
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import PROJECT
from tests.nodes import node, read

from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of, unheard
from zombiescope.knowledge.kernel_messages import _formats, recognise

EXTERNAL = Path(os.environ.get("ZOMBIESCOPE_EXTERNAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
ENA = "ena 0000:00:05.0 eth0: "
OF_ENA = {"driver": "ena", "device": "0000:00:05.0", "nic": "eth0"}

DATA = PROJECT / "tests" / "data" / "kernel_messages"
with open(DATA / "formats.toml", "rb") as _file:
    FORMATS: list[tuple[str, str, dict[str, str]]] = [
        (it["text"], it["kind"], it["fields"]) for it in tomllib.load(_file)["line"]
    ]
# What a node says all day: none of it is an event, though some of it is near.
ORDINARY = (DATA / "ordinary.txt").read_text().splitlines()


@pytest.mark.parametrize(("text", "kind", "fields"), FORMATS, ids=[text[:60] for text, *_ in FORMATS])
def test_every_wording_of_every_format(text: str, kind: str, fields: dict[str, str]) -> None:
    found = recognise(text)
    assert found is not None and (found.kind, dict(found.fields)) == (kind, fields)


@pytest.mark.parametrize("before", ["[  467.626433] ", "kernel: [108533.515447] ", "Jul 12 15:12:04 host kernel: ", ""])
def test_what_a_log_puts_before_a_line_does_not_matter(before: str) -> None:
    for text, kind, fields in FORMATS:
        found = recognise(before + text)
        assert found is not None and (found.kind, dict(found.fields)) == (kind, fields), before + text


def test_every_format_has_a_line_here() -> None:
    """By the pattern itself: a format that no test reaches would rot."""
    for piece, formats in _formats():
        for one in formats:
            hits = [text for text, kind, _ in FORMATS if kind == one.kind and one.expression.search(text)]
            assert hits and all(piece in text for text in hits), one.pattern


def test_ordinary_lines_are_no_event() -> None:
    assert len(ORDINARY) > 120
    wrapped = [f"[{number:12.6f}] {line}" for number, line in enumerate(ORDINARY)]
    assert [line for line in (*ORDINARY, *wrapped) if recognise(line) is not None] == []


def test_lines_that_others_collected() -> None:
    try:
        lines = (EXTERNAL / "kmsg" / "sample_lines.txt").read_text().splitlines()
    except FileNotFoundError:
        pytest.skip(f"no lines at {EXTERNAL}: set ZOMBIESCOPE_EXTERNAL_DATA")
    found = [recognise(line) for line in lines]
    assert len(lines) >= 29 and None not in found
    kinds = [it.kind for it in found if it is not None]
    assert kinds.count("nic_tx_stuck") >= 13 and kinds.count("soft_lockup") == 2 and "unit_restart" in kinds
    for line, message in zip(lines, found, strict=True):
        assert message is not None
        if "ena 0000:00:05.0 e" in line:
            assert message.fields["driver"] == "ena" and message.fields["nic"] in ("eth0", "ens5"), line
        if "qid" in line or " queue" in line or " Q " in line or "TX q " in line:
            assert message.fields["queue"].isdecimal(), line


HOSTILE = [
    "",
    "\0",
    "\n" * 100,
    "\x1b[31m\x1b]0;evil\x07 TX q \udcff is paused for too long (threshold ",
    "ena 0000:00:05.0 " + "e" * 5000 + ": Trigger reset is on",
    "A" * 1_000_000,
    "TX timeout on queue: " * 50_000,
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=0" + ",0" * 900 + ",cpuset=" + ",task_memcg=" * 100,
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=,mems_allowed=0,global_oom,task_memcg=/"
    + ",task=,pid=1" * 150,
    "Killed process 1 (" * 110,
    "x" * 1_970 + ": Scheduled restart job",
    "x " * 980 + "hold-off time over, scheduling restart.",
    "INFO: task " * 170 + " for more than ",
    "NETDEV WATCHDOG: " * 110,
    "1" * 1_950 + " ticks this GP) idle=",
    "1-" * 950 + " GPs behind) idle=",
    "BUG: soft lockup - CPU#1 stuck for 1s! [" * 49,
    "workqueue: " * 150 + " hogged CPU for >",
    ("XFS (a): a" + " detected" * 8) * 22 + "Shutting down filesystem",
    "WARNING: a:1 at b" * 110 + ", CPU#",
    "WARNING: at " + "a" * 120 + ", CPU#1: " + "/1" * 900,
    ": a" * 640 + " [#",
    "a[1]: unhandled " * 110,
    "EXT4-fs error (device a) in " * 70,
    "Unable to handle kernel " * 80,
    "a (1): drop_caches: " * 95,
    "[a] tag#1 " * 190 + "] tag#",
    "TX q 1 is paused for too long (threshold " + "9" * 1_900 + "). usecs since napi 1. napi scheduled: 1",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_harmless_and_quick(text: str) -> None:
    recognise(text)
    started = time.thread_time()
    for _ in range(10):
        recognise(text)
    assert (time.thread_time() - started) / 10 < 0.02


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_torn_and_mixed_lines_never_raise(data: st.DataObject) -> None:
    """Pieces of real lines put together anew: the text that comes nearest to every pattern."""
    lines = st.sampled_from([text for text, *_ in FORMATS])
    text = ""
    for _ in range(data.draw(st.integers(1, 4))):
        line = data.draw(lines)
        text += line[data.draw(st.integers(0, len(line))) :] if text else line[: data.draw(st.integers(0, len(line)))]
        text += data.draw(st.text(max_size=20))
    found = recognise(text)
    assert found is None or all(isinstance(value, str) for value in found.fields.values())


def log(*texts: str, every: float = 0.01) -> Timeline:
    return node(read("kernel_log", "node", 4, at=place * every, text=text) for place, text in enumerate(texts))


DUMP = [f"{ENA}total_resets: 1", *(f"{ENA}queue_{queue}_tx_cnt: 4{queue}" for queue in range(300))]


def test_told_in_order_and_by_kind_and_worked_out_once() -> None:
    timeline = log("usb 1-1: new", f"{ENA}Trigger reset is on", "INFO: task a:1 blocked for more than 120 seconds.")
    assert [it.message.kind for it in lines_of(timeline)] == ["nic_reset", "hung_task"]
    (hung,) = lines_of(timeline, "hung_task", "oom_kill")
    assert hung.reading.text.startswith("INFO: task a:1") and hung is lines_of(timeline)[1]
    assert lines_of(Timeline()) == []


def test_the_counters_after_a_reset_are_one_and_only_there() -> None:
    timeline = log(*DUMP, f"{ENA}Trigger reset is on", *DUMP, "queue_0: 7", "eth9: total_resets: 3", "usb: x")
    kinds = [it.message.kind for it in lines_of(timeline)]
    assert kinds == ["nic_reset", "nic_counters"]
    fields = lines_of(timeline, "nic_counters")[0].message.fields
    assert len(fields) == 301 + len(OF_ENA)
    assert (fields["nic"], fields["total_resets"], fields["queue_299_tx_cnt"]) == ("eth0", "1", "4299")
    late = log(f"{ENA}Trigger reset is on", *DUMP[:3], every=11.0)
    assert [it.message.kind for it in lines_of(late)] == ["nic_reset"]


LOST = f"{ENA}[1/2] Lost TX completions are above threshold (1019 > 128), completion timeout: 5000 (msec), 21000 msecs "
LOST += "since interrupt, 21000 msecs since napi, qid: 5"


@pytest.mark.parametrize("second", ["[2/2] qid: 39, napi CPU: 5", "[2/2] qid: 5, napi CPU: 39"])
def test_swapped_or_not_the_first_line_says_which_is_the_queue(second: str) -> None:
    _, fields = (it.message.fields for it in lines_of(log(LOST, ENA + second)))
    assert (fields["queue"], fields["cpu"]) == ("5", "39")


def test_why_the_log_does_not_tell_everything() -> None:
    assert unheard(log("quiet")) is None
    nobody = unheard(Timeline())
    assert nobody is not None and nobody.why == "nothing looked for kernel_log"
    forbidden = unheard(node([], unseen={"kernel_log": "operation not permitted"}))
    assert forbidden is not None and forbidden.why == "operation not permitted"
