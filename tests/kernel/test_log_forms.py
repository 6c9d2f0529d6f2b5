"""Logs as journalctl, dmesg, syslog daemons, consoles and containers really print them: each says the same line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kernel.fuzz_logs import AS_WRITTEN, AT, ENDED, ENTRY, RESET, fuzz
from tests.zones import in_zone

from zombiescope.core import Unparsable
from zombiescope.kernel.log_text import parse_log


@pytest.fixture(autouse=True)
def _zone() -> Iterator[None]:
    with in_zone("UTC"):
        yield


@pytest.mark.parametrize("form", AS_WRITTEN)
def test_forms_with_times(form: str) -> None:
    text = AS_WRITTEN[form].replace("{}", RESET) if form != "json of bytes" else AS_WRITTEN[form]
    log = parse_log(f"{text}\n", ended=ENDED)
    assert [it.text for it in log.lines] == [RESET], log
    assert abs(log.lines[0].at - AT) < 0.2, log
    assert log.lines[0].level in (3, 6) and "as written" in log.clock


@pytest.mark.parametrize(
    "line",
    [
        "kern  :err   : [12345.678901] {}",
        "[12345.678901 <    0.000012>] {}",
        "** 12 printk messages dropped ** [12345.678901] {}",
        "node-7 login: [12345.678901] {}",
        "node-7 login: ** 3 printk messages dropped ** [12345.678901] {}",
        "[pod/node-problem-detector-x7/npd] [12345.678901] {}",
        "2026-11-12T15:12:04.123456789Z [12345.678901] {}",
        "2026-11-12T15:12:04.123456789Z stdout F [12345.678901] {}",
        "[2026-11-12 15:12:04] [12345.678901] {}",
        "\x1b[0m[12345.678901] {}",
        "<3>[12345.678901] {}\nPanic#1 Part1",
        "[12345.678901] {}\r",
        '{"log":"[12345.678901] {}\\n","stream":"stdout","time":"2026-11-12T15:12:04.123456789Z"}',
    ],
)
def test_what_stands_before_a_time_since_boot(line: str) -> None:
    log = parse_log(line.replace("{}", RESET) + "\n", ended=ENDED)
    assert [it.text.rstrip("\r") for it in log.lines] == [RESET]
    assert log.lines[0].at == pytest.approx(ENDED)


@pytest.mark.parametrize(
    "text",
    [
        f"[Nov12 15:08] booted\n[  +0.500000] up\n[Nov12 15:10] {RESET}\n[  +2.000000] over\n",
        f"kern  :info  : [Nov12 15:08] booted\nkern  :info  : [  +0.500000] up\n"
        f"kern  :err   : [Nov12 15:10] {RESET}\nkern  :info  : [  +2.000000] over\n",
        f"[<    0.000000>] booted\n[<    0.500000>] up\n[<  119.500000>] {RESET}\n[<    2.000000>] over\n",
        json.dumps(
            {
                "dmesg": [
                    {"pri": 6, "time": 5.0, "msg": "booted"},
                    {"pri": 6, "time": 5.5, "msg": "up"},
                    {"pri": 3, "time": 125.0, "msg": RESET},
                    {"pri": 6, "time": 127.0, "msg": "over"},
                ]
            },
            indent=3,
        ),
        f"Panic#1 Part1\n<3>[  125.000000] {RESET}\n<6>[  127.000000] over\nPanic#1 Part2\n<6>[    5.000000] booted\n"
        "<6>[    5.500000] up\n",
    ],
    ids=["dmesg -H", "dmesg -x -H", "dmesg --time-format delta", "dmesg -J", "pstore, newest part first"],
)
def test_times_in_a_roundabout_way(text: str) -> None:
    log = parse_log(text, ended=ENDED)
    assert [it.text for it in log.lines] == ["booted", "up", RESET, "over"]
    assert [round(it.at - ENDED, 3) for it in log.lines] == [-122.0, -121.5, -2.0, 0.0]


def test_a_dump_of_ramoops_ends_when_it_was_dumped() -> None:
    log = parse_log(f"===={AT:.6f}-D\nPanic#1 Part1\n<3>[   10.000000] {RESET}\n<6>[   12.500000] over\n", ended=ENDED)
    assert [round(it.at - AT, 3) for it in log.lines] == [-2.5, 0.0]


@pytest.mark.parametrize("text", ['{"dmesg": 3}', '{"dmesg": [{"time": "x"}]}', "[Foo99 99:99] a\n[  +0.000001] b\n"])
def test_odd_ones_of_these_are_no_crash(text: str) -> None:
    try:
        assert parse_log(text, ended=ENDED).lines
    except Unparsable as error:
        assert "the log" in str(error)


def test_a_log_without_times_keeps_its_order_and_says_so() -> None:
    log = parse_log(f"usb 1-1: new device\n{RESET}\nCall Trace:\n", ended=ENDED)
    assert [it.text for it in log.lines] == ["usb 1-1: new device", RESET, "Call Trace:"]
    assert log.clock == "no times in it: only the order of its lines is known"
    assert [it.at for it in log.lines] == sorted(it.at for it in log.lines) and log.lines[-1].at <= ENDED


def test_a_console_also_has_what_programs_print() -> None:
    said = "[  OK  ] Started something.\ncloud-init: modules\n"
    log = parse_log(f"[   10.0] a\n{said}[   11.0] b\n{said}", ended=ENDED)
    assert [it.text for it in log.lines] == ["a", "b"]


def test_records_of_many_writers() -> None:
    entries: list[dict[str, Any]] = [
        {**ENTRY, "MESSAGE": RESET},
        {**ENTRY, "SYSLOG_IDENTIFIER": "systemd", "_PID": "1", "MESSAGE": "up"},
        {**ENTRY, "MESSAGE": None},
        {**ENTRY, "SYSLOG_IDENTIFIER": "joker", "MESSAGE": RESET},
    ]
    text = "\n".join(json.dumps(it) for it in entries) + '\n{"damaged": \n'
    log = parse_log(text, ended=ENDED, of=("kernel", "systemd").__contains__)
    assert [it.text for it in log.lines] == [RESET, "systemd[1]: up"]
    assert (log.format, log.lines[0].level) == ("journalctl -o json", 3)


HEADS = ("[" * 1_000_000, "[ " + "1" * 1_000_000, "Nov 12 " * 200_000, "1," * 500_000)
RECORDS = ('{"a": ' * 3000, "{" * 100_000, "data: {\n" * 50_000, "__CURSOR=\n" * 50_000)


@pytest.mark.parametrize("text", HEADS + RECORDS)
def test_hostile_heads_and_records_are_quick(text: str) -> None:
    started = time.thread_time()
    with pytest.raises(Unparsable):
        parse_log(text, ended=ENDED)
    assert time.thread_time() - started < 2.0


def test_two_thousand_damaged_logs() -> None:
    assert 500 < fuzz(2000, 3) < 2000
