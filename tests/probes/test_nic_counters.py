"""nic_counters: drivers' own names in one spelling, a real ENA's, other drivers', and this machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.probes.machine import machine, told, unseen

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.probes import nic_counters
from zombiescope.probes.nic_counters import GIVES, chosen, parse

DATA = Path(os.environ.get("ZOMBIESCOPE_EXTERNAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
RESETS, STARVATIONS, MISSED, WATCHDOG, ALLOWANCE = GIVES
ENA = """\
NIC statistics:
     total_resets: 3
     tx_timeout: 1
     os_netdev_wd: 1
     suspected_poll_starvation: 2
     missing_tx_cmpl: 1
     bw_in_allowance_exceeded: 11072
     bw_out_allowance_exceeded: 0
     pps_allowance_exceeded: 8
     conntrack_allowance_available: 51286
     queue_0_tx_missed_tx: 130
     queue_1_tx_missed_tx: 7
"""


def test_a_real_ena() -> None:
    try:
        text = (DATA / "nodes" / "ena-ethtool-S-ens5.txt").read_text()
    except FileNotFoundError:
        pytest.skip(f"no counters at {DATA}: set ZOMBIESCOPE_EXTERNAL_DATA")
    counters = parse(text)
    assert len(counters) == 115 and counters["queue_1_tx_cnt"] == 5157228
    sums = {what: sum(chosen(what, counters).values()) for what in GIVES}
    assert sums == {RESETS: 0, STARVATIONS: 0, MISSED: 0, WATCHDOG: 0, ALLOWANCE: 11072}
    assert set(chosen(MISSED, counters)) == {"queue_0_tx_missed_tx", "queue_1_tx_missed_tx"}
    assert len(chosen(ALLOWANCE, counters)) == 5  # not the one that says how much is left


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        # gve
        ({"tx_timeouts": 2, "reset_cnt": 1, "rx_packets": 9}, {RESETS: 1, WATCHDOG: 2}),
        # virtio_net, oldest first
        ({"tx_queue_0_tx_timeouts": 1, "tx_queue_1_tx_timeouts": 2}, {WATCHDOG: 3}),
        ({"tx_tx_timeouts": 3, "tx0_tx_timeouts": 1, "tx1_tx_timeouts": 2}, {WATCHDOG: 3}),
        ({"tx0_timeouts": 1, "rx0_drops": 7}, {WATCHDOG: 1}),
        # i40e, mlx5
        ({"tx_timeout": 4, "port.tx_errors": 9}, {WATCHDOG: 4}),
        ({"tx_recover": 5, "tx0_recover": 3, "tx1_recover": 2}, {RESETS: 5}),
        # ENA before 2.10: its resets are not all counted, so none is told
        ({"tx_timeout": 1, "wd_expired": 2, "queue_0_tx_missed_tx": 4}, {WATCHDOG: 1, MISSED: 4}),
        ({"rx_packets": 9}, {}),
        ({}, {}),
    ],
)
def test_other_drivers(counters: dict[str, int], expected: dict[str, int]) -> None:
    assert {what: sum(parts.values()) for what in GIVES if (parts := chosen(what, counters))} == expected


def node(root: Path, files: dict[str, str]) -> Host:
    host = machine(root, {"at": "1794000000\n", "sys/class/net/lo/": "", **files})
    (root / "sys/class/net/eth0").mkdir()
    (root / "sys/class/net/eth0/device").symlink_to("../../../0000:00:05.0")
    return host


def test_a_recorded_root_has_what_the_command_printed(tmp_path: Path) -> None:
    host = node(tmp_path, {"cmd/ethtool_-S_eth0": ENA})
    assert told(nic_counters, host) == {
        (RESETS, "nic:eth0"): 3,
        (STARVATIONS, "nic:eth0"): 2,
        (MISSED, "nic:eth0"): 137,
        (WATCHDOG, "nic:eth0"): 1,
        (ALLOWANCE, "nic:eth0"): 11080,
    }
    words = {it.what: (it.text, it.source) for it in nic_counters.read(host) if isinstance(it, Reading)}
    assert words[MISSED] == ("queue_0_tx_missed_tx 130, queue_1_tx_missed_tx 7", "$ ethtool -S eth0")
    assert words[ALLOWANCE][0] == "bw_in_allowance_exceeded 11072, pps_allowance_exceeded 8"


def test_what_no_card_counts_is_not_seen_and_what_one_does_not_is_blind_of_it_alone(tmp_path: Path) -> None:
    host = node(tmp_path, {"cmd/ethtool_-S_eth0": "NIC statistics:\n     tx_timeout: 1\n"})
    assert told(nic_counters, host) == {(WATCHDOG, "nic:eth0"): 1}
    assert set(unseen(nic_counters, host)) == set(GIVES) - {WATCHDOG}
    (tmp_path / "sys/class/net/eth1").mkdir()
    (tmp_path / "sys/class/net/eth1/device").symlink_to("../../../0000:00:06.0")
    (tmp_path / "cmd/ethtool_-S_eth1").write_text(ENA)
    blind = {(it.what, it.subject) for it in nic_counters.read(host) if isinstance(it, Blind)}
    assert blind == {(what, "nic:eth0") for what in GIVES if what != WATCHDOG}


def test_no_card(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no network card"):
        list(nic_counters.read(machine(tmp_path, {"sys/class/net/lo/": ""})))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("no stats available\n", 1),
        ("NIC statistics:\n     x: -1\n", 2),
        ("NIC statistics:\n     a: 1\n     no number\n", 3),
        (f"NIC statistics:\n     a: {'9' * 400}\n", 2),
    ],
)
def test_damage(text: str, line: int) -> None:
    with pytest.raises(Unparsable) as caught:
        parse(text)
    assert caught.value.line == line


def test_names_may_hold_anything() -> None:
    assert parse("NIC statistics:\n     [0]: tx: rings\x1b[31m: 7\n") == {"[0]: tx: rings\x1b[31m": 7}


def test_two_looks_at_this_machine() -> None:
    """Whatever card there is: both looks tell of the same things, or why not."""
    try:
        with nic_counters.watch(Host()) as look:
            first, second = list(look()), list(look())
    except Unreadable as error:
        assert "no network card" in error.why
        return
    assert [(it.what, it.subject) for it in first] == [(it.what, it.subject) for it in second]
    assert {it.what for it in first} == set(GIVES)
