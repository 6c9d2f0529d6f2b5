"""lost_routing_rules: rules that went together and stayed away, and who did it; pods that end and renewals are not."""

from __future__ import annotations

import struct
import subprocess
import sys

import pytest
from tests.nodes import node, read

from zombiescope.core import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.kernel.rule_events import Change, parse
from zombiescope.signs import lost_routing_rules

NETWORKD = "process:systemd-network[412]"


def change(value: int, at: float, priority: int, who: str = NETWORKD) -> Reading:
    return read("routing_rule_change", "node", value, at, f"{priority}: IPv4 lookup 100 by {who}")


def case(*readings: Reading, looked: bool = True) -> Case:
    unseen = None if readings or not looked else {"routing_rule_change": "operation not permitted"}
    return examine(node(readings, unseen=unseen), signs={"lost_routing_rules": lost_routing_rules}, laws={})


def test_a_restart_that_takes_all_rules_away_is_noted_with_its_name() -> None:
    (found,) = case(*(change(-1, place / 10, 512 + place) for place in range(40))).noted
    assert found.subject == found.culprit == NETWORKD
    assert found.says == "removed 40 routing rules that did not come back; the first: 512: IPv4 lookup 100"
    (gone,) = case(*(change(-1, place / 10, 512 + place, "port 99") for place in range(4))).noted
    assert gone.subject == "node" and "by port 99" in gone.says


@pytest.mark.parametrize(
    "readings",
    [
        [change(-1, 20.0 * place, 512 + place, "process:cni[7]") for place in range(9)],
        [change(value, place / 10, 512 + place) for place in range(9) for value in (-1, 1)],
        [change(1, place / 10, 512 + place) for place in range(9)],
    ],
    ids=["pods that end", "renewed", "added"],
)
def test_silent(readings: list[Reading]) -> None:
    result = case(*readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_blind() -> None:
    assert case(looked=True).verdicts[0].state == "blind"


def message(kind: int, priority: int, table: int, port: int) -> bytes:
    rule = struct.pack("=8BI", 2, 0, 0, 0, 252, 0, 0, 1, 0)
    rule += struct.pack("=HHI", 8, 6, priority) + struct.pack("=HHI", 8, 15, table)
    return struct.pack("=IHHII", 16 + len(rule), kind, 0, 0, port) + rule


def test_what_the_kernel_announces() -> None:
    both = message(33, 512, 100, 412) + message(32, 513, 4096, 0)
    assert parse(both) == [Change(True, 4, 512, 100, 412), Change(False, 4, 513, 4096, 0)]
    assert [it.words for it in parse(both)] == ["512: IPv4 lookup 100", "513: IPv4 lookup 4096"]


@pytest.mark.parametrize("cut", range(0, 44, 3))
def test_a_message_that_is_cut_short_or_odd_is_harmless(cut: int) -> None:
    assert len(parse(message(33, 512, 100, 412)[:cut])) <= 1
    assert parse(b"\0" * 64) == [] and parse(message(16, 1, 1, 1)) == []


LISTENS = """
import subprocess
from zombiescope.core import Host
from zombiescope.probes import routing_rules
with routing_rules.watch(Host()) as look:
    assert list(look()) == []
    for order in ("add", "del"):
        subprocess.run(["ip", "rule", order, "from", "198.51.100.7", "table", "7", "pref", "31007"], check=True)
    print([(it.value, it.text.partition(" by ")[0]) for it in look()])
"""


@pytest.mark.beside
def test_rules_of_a_namespace_of_its_own() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", LISTENS], capture_output=True, text=True, check=False
    )
    if "Operation not permitted" in done.stderr or "No such file" in done.stderr:
        pytest.skip("needs root, unshare and ip")
    assert done.stdout.strip() == str([(1, "31007: IPv4 lookup 7"), (-1, "31007: IPv4 lookup 7")]), done.stderr
