"""napi_poll: polls by device, of a real loopback, and what is kept of many devices."""

from __future__ import annotations

import os
import socket

import pytest

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.napi_polls import EIGHTHS, Polls, program
from zombiescope.kernel.tracepoint_format import Field, Format
from zombiescope.probes import napi_poll
from zombiescope.probes._core_times import RESTS

PACKETS = 40_009


def polls(device: str, few: int, full: int) -> Polls:
    return Polls(device, (few, *[0] * (EIGHTHS - 2), full), few + 64 * full)


def test_devices_that_run_out_of_budget_come_first_and_nothing_is_lost() -> None:
    many = [polls(f"veth{number}", number, 0) for number in range(1, 500)]
    found = napi_poll.bounded([polls("", 3, 0), *many, polls("eth0", 5, 7)])
    assert len(found) == napi_poll.MOST + 1
    assert [it.device for it in found[:2]] == ["eth0", "veth499"] and found[-1].device == "others"
    assert sum(sum(it.counts) for it in found) == 3 + sum(range(1, 500)) + 12
    assert napi_poll.bounded(many[:3]) == [*reversed(many[:3])]


def test_a_record_without_the_name_is_refused() -> None:
    fields = {"work": Field(20, 4), "budget": Field(24, 4)}
    for name in (None, Field(16, 4)):
        known = fields | ({"dev_name": name} if name else {})
        with pytest.raises(Unreadable, match="dev_name"):
            program(Format("/format", 1, known, {}), polls=3, said=4)


@pytest.mark.kernel
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: bpf(2) refuses everyone else")
def test_packets_over_loopback_are_polls_of_the_backlog() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there,
        napi_poll.watch(Host()) as look,
    ):
        here.bind(("127.0.0.1", 0))
        there.connect(here.getsockname())
        list(look())
        for _ in range(PACKETS):
            there.send(b"x")
        found = {it.subject: it for it in look() if isinstance(it, Reading)}
        assert [it.why for it in look() if isinstance(it, Blind)] == [RESTS], "there were more than POLLS a second"
    backlog = found["nic:(no_device)"]
    packets = int(backlog.text.partition("polls, ")[2].partition(" ")[0])
    assert 0.9 * PACKETS < packets < 1.5 * PACKETS, backlog.text
    assert "eighths of the budget: 0:" in backlog.text and backlog.value < 0.1
