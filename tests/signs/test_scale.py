"""Thresholds grow with the node: what is much on two cores and ten pods is ordinary on 192 cores and 500 pods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from tests.nodes import cores, node, read
from tests.signs.test_direct_reclaim import counter, waiting
from tests.signs.test_zombie_cgroups import v1

from zombiescope import signs
from zombiescope.core import Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import defunct_processes, direct_reclaim, mount_explosion, page_fault_storm, zombie_cgroups

FILES = sorted(path for path in Path(signs.__path__[0]).glob("[a-z]*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sign_says_how_its_thresholds_grow(path: Path) -> None:
    assert "\n# Scale: " in path.read_text()


def node_of(count: int, used: float = 0.0) -> list[Reading]:
    return cores({cpu: [{"system": used, "user": used / 4}] * 10 for cpu in range(count)}, every=1.0)


def reclaiming(count: int) -> list[Reading]:
    """0.6 cores' worth of waiting for memory: the node's pressure is an average over busy cores."""
    pace = counter("vmstat_allocstall_total", [50] * 10), counter("vmstat_pgscan_direct_total", [500] * 10)
    return [*waiting(*[0.6 / max(count * 0.25, 1)] * 10), *pace[0], *pace[1], *node_of(count, 0.2)]


def faulting(count: int) -> list[Reading]:
    faults = [*counter("vmstat_pgfault_total", [300_000] * 10), *counter("vmstat_pgmajfault_total", [0] * 10)]
    return [*faults, *node_of(count, 2.0 / count if count > 2 else 0.7)]


def left(count: int) -> list[Reading]:
    return [read("defunct_children", "process:pool[7]", 30, at) for at in (0.0, 5.0)] + node_of(count)


def mounted(pods: int) -> list[Reading]:
    info = [read("pod_info", f"pod:{number}", 1, 0.0, f"pod a/b{number}") for number in range(pods)]
    return [*info, *(read("mounts", "node", 3_200, at) for at in (0.0, 5.0))]


@pytest.mark.parametrize(
    ("sign", "small", "large"),
    [
        (direct_reclaim, reclaiming(2), reclaiming(192)),
        (page_fault_storm, faulting(2), faulting(192)),
        (defunct_processes, left(2), left(192)),
        (mount_explosion, mounted(10), mounted(250)),
        (zombie_cgroups, v1([1_400.0] * 10, live=240), v1([4_000.0] * 10, live=2_500)),
    ],
    ids=lambda it: it.__name__.rpartition(".")[2] if isinstance(it, ModuleType) else "",
)
def test_what_is_much_on_a_small_node_is_ordinary_on_a_large_one(
    sign: ModuleType, small: Sequence[Reading], large: Sequence[Reading]
) -> None:
    name = sign.__name__.rpartition(".")[2]
    found = [examine(node(it), signs={name: sign}, laws={}).findings for it in (small, large)]
    assert found[0] and not found[1], found
