"""slab_bloat and mount_explosion: what is too much is found and named, an ordinary node's tables are not."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.nodes import Sampled, node, read

from zombiescope.core import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import mount_explosion, slab_bloat

TOTAL = 24e9


def case(sign: ModuleType, readings: list[Reading]) -> Case:
    return examine(node(readings), signs={sign.__name__.rpartition(".")[2]: sign}, laws={})


def slabs(unreclaimable: float, negative: float = 30_000.0) -> list[Reading]:
    return [
        read("memory_total_bytes", "node", TOTAL, 0.0),
        read("memory_slab_unreclaimable_bytes", "node", unreclaimable, 0.0),
        read("memory_slab_unreclaimable_bytes", "node", unreclaimable, 10.0),
        read("dentries_negative", "node", negative, 0.0),
        read("slab_cache_bytes", "cache:dentry", 3e7, 0.0),
        read("slab_cache_bytes", "cache:kmalloc-4k", unreclaimable * 0.8, 0.0),
    ]


def test_kernel_objects_take_a_fifth_of_the_memory_and_the_largest_kind_is_named() -> None:
    (found,) = case(slab_bloat, slabs(4.8e9)).findings
    assert "has 4.8 GB of kernel objects that cannot be freed, 20 % of all memory" in found.says
    assert "largest: kmalloc-4k 3.8 GB" in found.says
    assert "cache:kmalloc-4k" in {it.subject for it in found.evidence}


def test_who_makes_names_that_do_not_exist_while_they_become_more() -> None:
    def looks(stack: str) -> list[Sampled]:
        return [(at / 10, 0, "curl-nss[77]", stack) for at in range(100)]

    def rising(each: float) -> list[Reading]:
        return [
            *slabs(3e8, negative=20e6),
            *(read("dentries_negative", "node", 20e6 + each * at, at) for at in (1.0, 10.0)),
        ]

    slow, cached = "do_sys_open;path_openat;lookup_open;d_alloc_parallel", "do_sys_open;path_openat;lookup_fast"
    for each, stack, maker in ((50_000, slow, True), (50_000, cached, False), (10, slow, False)):
        found = examine(node(rising(each), samples=looks(stack)), signs={"slab_bloat": slab_bloat}, laws={}).findings
        assert ["made by curl-nss[77]" in it.says for it in found] == [maker]
        assert found[0].culprit == ("process:curl-nss[77]" if maker else "")


def test_names_that_do_not_exist() -> None:
    (found,) = case(slab_bloat, slabs(3e8, negative=20e6)).findings
    assert found.subject == "cache:dentry" and "holds 20,000,000 negative dentries" in found.says


def test_an_ordinary_node_s_slab() -> None:
    result = case(slab_bloat, slabs(7e8))
    assert not result.findings and "700.0 MB of kernel objects that cannot be freed, 2.9 %" in result.verdicts[0].says


def mounts(count: float) -> list[Reading]:
    return [
        read("mounts", "node", count, 0.0),
        read("mounts_read_cpu_seconds", "node", count * 2e-6, 0.0),
        read("mounts_alike", "family:/run/user/<n> (tmpfs)", 3.0, 0.0),
        read("mounts_alike", "family:/var/lib/kubelet/pods/<uid>/volumes (tmpfs)", count - 20, 0.0),
        read("mounts_limit", "node", 100_000, 0.0),
    ]


def test_thousands_of_mounts_with_their_kind_and_price() -> None:
    (found,) = case(mount_explosion, mounts(20_000)).findings
    assert found.says.startswith("has 20,000 mounts; about 19,980 of them /var/lib/kubelet/pods/<uid>/volumes (tmpfs)")
    assert "40.0 ms of a core" in found.says and "allows 100,000" in found.says


@pytest.mark.parametrize("count", [21, 800, 2_900])
def test_a_full_node_s_mounts(count: float) -> None:
    result = case(mount_explosion, mounts(count))
    assert (
        not result.findings and result.verdicts[0].state == "clear" and f"{count:,} mounts" in result.verdicts[0].says
    )
