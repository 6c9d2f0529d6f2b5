"""Cgroups are counted as they are removed and released; what was dying before does not count."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.kernel.test_cgroup_events import wait_for_releases
from tests.waiting import until

from zombiescope.core import Blind, Host
from zombiescope.kernel.cgroup_events import CgroupEvent, watching
from zombiescope.lab._zombies import leaked
from zombiescope.probes import cgroup_events
from zombiescope.probes.cgroup_events import Look

FAMILY = "family:/zslab-test-<n>-<n>/z<n>"


def counted(look: Look) -> list[float]:
    """Births, removals and releases of the family."""
    told = {it.what: it.value for it in look() if not isinstance(it, Blind) and it.subject == FAMILY}
    return [told.get(what, 0.0) for what in cgroup_events.GIVES]


@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.usefixtures("memory_cgroups")
def test_what_was_dying_before_and_is_freed_now_hides_none_that_stays() -> None:
    with leaked(31, label="test-1") as before, cgroup_events.watch(Host()) as look, watching() as events:
        with leaked(17, label="test-2"):
            before.free()
            assert wait_for_releases(events, "/" + os.path.basename(before.parent), 31) == 31
            assert counted(look) == [17, 17, 0]
        until(lambda: counted(look) == [17, 17, 17])


def events(kind: str, numbers: range) -> Iterator[CgroupEvent]:
    return (CgroupEvent(at=0.0, kind=kind, root=0, id=it, path="/a", comm="") for it in numbers)


def test_where_too_many_are_dying_to_know_each_every_release_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_events, "MOST_DYING", 5)
    dying = cgroup_events._Dying()
    assert all(dying.counts(it) for it in events("rmdir", range(5)))
    assert not any(dying.counts(it) for it in events("release", range(90, 95)))
    assert all(dying.counts(it) for it in events("rmdir", range(5, 7)))
    assert all(dying.counts(it) for it in events("release", range(90, 95)))
