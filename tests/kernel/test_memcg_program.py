"""Where the walk cannot be: no BTF, no memory cgroups, or offsets that no kernel would have."""

from __future__ import annotations

import dataclasses

import pytest
from tests.kernel.fuzz_btf import Blob

from zombiescope.core.errors import Unreadable
from zombiescope.kernel import memcg_program
from zombiescope.kernel.btf import Btf
from zombiescope.kernel.memcg_offsets import Offsets, offsets_from
from zombiescope.kernel.memcg_walk import walk


def test_offsets_no_kernel_would_have_are_refused() -> None:
    blank = {field.name: 0 for field in dataclasses.fields(Offsets) if field.name != "lists"}
    for change in (
        {"css_flags": 1 << 20},
        {"css_bytes": 4096},
        {"generation_sizes": 0, "generation_sizes_count": 1 << 20},
    ):
        hostile = Offsets(lists=(), **(blank | {"zones": 5} | change))
        with pytest.raises(Unreadable, match=r"not the BTF of a kernel|too large"):
            memcg_program.assemble(hostile, state=0, records=0, nodes=1, armed=False)


def test_without_btf_the_cure_is_told() -> None:
    with pytest.raises(Unreadable, match="CONFIG_DEBUG_INFO_BTF=y, or a BTF file"):
        walk(btf="/nonexistent/btf")


def test_a_kernel_without_memory_cgroups_is_told() -> None:
    blob = Blob()
    blob.struct("cgroup", 8)
    with pytest.raises(Unreadable, match="no memory cgroups"):
        offsets_from(Btf(blob.bytes(), "small kernel"))
