"""routes: networks and the interface that reaches each, as `ip route` shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine

from zombiescope.core import Blind, Reading
from zombiescope.probes import routes
from zombiescope.probes.routes import Route, parse

HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
TABLE = (
    HEAD
    + "eth0\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
    + "eth1\t00000000\t0101A8C0\t0003\t0\t0\t200\t00000000\t0\t0\t0\n"
    + "eth1\t0040000A\t00000000\t0001\t0\t0\t0\t00C0FFFF\t0\t0\t0\n"
    + "eth2\t0000000A\t00000000\t0000\t0\t0\t0\t000000FF\t0\t0\t0\n"
)


def test_parse() -> None:
    assert parse(TABLE) == [
        Route("0.0.0.0/0", "eth0", 100),
        Route("0.0.0.0/0", "eth1", 200),
        Route("10.0.64.0/18", "eth1", 0),
    ]
    assert parse(HEAD) == []


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ("x\n", 1), (HEAD + "eth0\n", 2), (HEAD + "eth0\tx\t0\t1\t0\t0\t0\t0\n", 2)]
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/net/route", line)


def test_of_two_the_better_is_told(tmp_path: Path) -> None:
    seen = routes.read(machine(tmp_path, {"proc/net/route": TABLE}))
    told = {it.subject: it.text for it in seen if isinstance(it, Reading)}
    assert told == {"route:0.0.0.0/0": "eth0", "route:10.0.64.0/18": "eth1"}


def test_a_router_s_table_is_blind(tmp_path: Path) -> None:
    rows = [f"eth0\t{number:08X}\t0\t0001\t0\t0\t0\tFFFFFFFF\n" for number in range(routes.MOST + 1)]
    (blind,) = routes.read(machine(tmp_path, {"proc/net/route": HEAD + "".join(rows)}))
    assert isinstance(blind, Blind)
