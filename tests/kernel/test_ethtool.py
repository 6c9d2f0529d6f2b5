"""ethtool by ioctl: this machine's own interfaces, some made for the test, and some that are not there."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.conftest import CANNOT

from zombiescope.core import Unreadable
from zombiescope.kernel import ethtool
from zombiescope.kernel.ethtool import Ethtool

CLONE_NEWNET = 0x40000000


@contextmanager
def own_network() -> Iterator[None]:
    """A network namespace of our own, left again at the end: what is made in it goes with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.unshare(CLONE_NEWNET) != 0:
        os.close(before)
        pytest.skip(f"{CANNOT}make a network namespace: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        libc.setns(before, CLONE_NEWNET)
        os.close(before)


def make_pair() -> None:
    argv = ["ip", "link", "add", "zslab9", "type", "veth", "peer", "name", "zslab10"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"{CANNOT}run ip")
    if done.returncode:
        pytest.skip(f"{CANNOT}make a veth pair: {done.stderr.strip()}")


@pytest.mark.kernel
def test_a_pair_made_for_this_counts_and_then_vanishes() -> None:
    with own_network(), Ethtool() as asked:
        make_pair()
        names = asked.names("zslab9")
        assert "peer_ifindex" in names and asked.count("zslab9") == len(names)
        values = dict(zip(names, asked.values("zslab9", len(names)), strict=True))
        assert values["peer_ifindex"] > 0
        assert asked.driver("zslab9").name == "veth"
        subprocess.run(["ip", "link", "del", "zslab9"], check=True)
        for question in (asked.names, asked.driver, asked.count):
            with pytest.raises(Unreadable, match="no such device"):
                question("zslab9")


@pytest.mark.kernel
def test_a_number_that_changed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with own_network(), Ethtool() as asked:
        make_pair()
        names = asked.names("zslab9")
        with pytest.raises(Unreadable, match="counters, not"):
            asked.values("zslab9", len(names) - 1)
        monkeypatch.setattr(ethtool, "MOST", 2)
        with pytest.raises(Unreadable, match="more than 2 counters"):
            asked.names("zslab9")


@pytest.mark.parametrize("name", ["", "zslab-no-such", "x" * 16, "a\0b", "é" * 8, "\udcff", "eth0 "])
def test_no_such_interface(name: str) -> None:
    with Ethtool() as asked, pytest.raises(Unreadable, match=r"no such device|not the name") as missed:
        asked.names(name)
    assert missed.value.source.startswith("$ ethtool -S ")


def test_loopback_counts_nothing() -> None:
    with Ethtool() as asked, pytest.raises(Unreadable, match=r"not supported|counts nothing"):
        asked.names("lo")
