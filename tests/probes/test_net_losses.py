"""Losses by network namespace: captured text, kernels that count less, and a namespace that is really full."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files import node_of
from tests.probes.machine import AT

from zombiescope.core import Blind, Host, Reading, Unparsable
from zombiescope.probes import conntrack_losses, net_losses

NETSTAT = (
    "TcpExt: SyncookiesSent ListenOverflows TCPBacklogDrop RcvPruned\nTcpExt: 1 12 3 4\nIpExt: InOctets\nIpExt: 9\n"
)
SNMP = "Tcp: RtoMin MaxConn PassiveOpens InSegs InCsumErrors\nTcp: 200 -1 50 7000 2\n"
SNMP += "Udp: InDatagrams InCsumErrors\nUdp: 5 1\n"


def root(folder: Path, **more: str) -> Host:
    files = {
        "at": str(AT),
        "proc/1/net/netstat": NETSTAT,
        "proc/1/net/snmp": SNMP,
        "proc/1/net/sockstat": "sockets: used 16\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 33\n",
        "proc/sys/net/ipv4/tcp_mem": "1\t2\t40\n",
        "proc/7/net/netstat": NETSTAT.replace("12", "90"),
        "proc/7/net/snmp": SNMP,
        "proc/7/cgroup": "0::/kubepods/pod1\n",
    }
    spaces = {"proc/1/ns/net": "net:[4026531840]", "proc/7/ns/net": "net:[4026532281]"}
    return node_of(folder, files | more, spaces)


def test_every_namespace_with_its_cgroup(tmp_path: Path) -> None:
    found = [it for it in net_losses.read(root(tmp_path)) if isinstance(it, Reading)]
    values = {(it.subject, it.what): it for it in found}
    assert values["node", "net_accepts_refused_total"].value == 12
    pod = values["netns:4026532281", "net_accepts_refused_total"]
    assert pod.value == 90 and pod.text == "/kubepods/pod1" and pod.source == "/proc/7/net/netstat"
    assert values["node", "net_tcp_dropped_total"].value == 7 and values["node", "net_bad_checksums_total"].value == 3
    assert values["node", "net_sends_refused_total"].value == 0  # this kernel does not count them
    assert values["node", "tcp_memory_pages"].value == 33 and values["node", "tcp_memory_limit_pages"].value == 40


def test_without_the_right_to_see_namespaces_pods_are_blind(tmp_path: Path) -> None:
    host = root(tmp_path)
    (tmp_path / "proc/1/ns/net").unlink()
    found = list(net_losses.read(host))
    assert {it.subject for it in found if isinstance(it, Reading)} == {"node"}
    assert [it.what for it in found if isinstance(it, Blind)] == ["net_accepts_refused_total"]


@pytest.mark.parametrize("text", ["", "TcpExt: a b\nTcpExt: 1\n", "TcpExt: a\nIpExt: 1\n", "TcpExt: a\nTcpExt: x\n"])
def test_damaged_text(text: str) -> None:
    with pytest.raises(Unparsable):
        net_losses.parse(text, "/proc/1/net/netstat")


def test_memory_and_the_connection_table() -> None:
    for text in ("", "TCP: inuse 1 mem\n", "TCP: mem x\n"):
        with pytest.raises(Unparsable):
            net_losses.parse_sockstat(text)
    table = "entries clashres insert insert_failed drop\n00000023 0 0 0000000a 0\n00000023 0 0 00000001 0\n"
    assert conntrack_losses.parse(table) == 11
    for text in ("", "entries drop\n1 2\n", "insert_failed\nzz\n"):
        with pytest.raises(Unparsable):
            conntrack_losses.parse(text)
