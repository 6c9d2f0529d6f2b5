"""Where this kernel keeps what the walk over memory cgroups reads: offsets, and which variant of each it has.

Kernels differ in names and features; each is looked up in BTF, the newest first, never guessed from a version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from zombiescope.core.errors import Unreadable
from zombiescope.kernel.btf import Btf
from zombiescope.kernel.ebpf import Helper

LIST_HEAD_BYTES = 16
# enum lru_list, the order of lruvec.lists and of a zone's row of lru_zone_size: two anonymous, two file, unevictable.
LRU_LISTS = 5
_FARTHEST = 1 << 20  # a struct of a megabyte would not be allocated; a task, the largest, has some 10 KB
_MOST_LISTS = 64  # 4 generations of 2 kinds are 8
_ANON_AND_FILE = 2  # a macro, so BTF does not know it
_PATHS = "paths"  # in a field's metadata


def _at(*paths: str) -> Any:
    """A field that is where BTF says this member is; of several paths, the first that this kernel has."""
    return field(metadata={_PATHS: paths})


class ListHeads(NamedTuple):
    """Consecutive list heads of mem_cgroup_per_node, read at once."""

    offset: int
    many: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Bytes from the start of the struct named first; None where this kernel has no such thing.

    A field names the member it is read from, unless that depends on the kernel: then `_ask` says how it is found.
    """

    task_cgroups: int = _at("task_struct.cgroups")
    css_set_subsys: int  # of the memory controller
    cgroup_root: int = _at("cgroup.root")
    cgroup_kn: int = _at("cgroup.kn")
    cgroup_level: int = _at("cgroup.level")
    root_hierarchy_id: int = _at("cgroup_root.hierarchy_id")
    root_css: int  # cgroup_root: the memory controller's css of its top cgroup

    css_bytes: int
    css_cgroup: int = _at("cgroup_subsys_state.cgroup")
    css_parent: int = _at("cgroup_subsys_state.parent")
    css_sibling: int = _at("cgroup_subsys_state.sibling.next")
    css_children: int = _at("cgroup_subsys_state.children.next")
    css_serial: int = _at("cgroup_subsys_state.serial_nr")
    css_id: int = _at("cgroup_subsys_state.id")
    css_flags: int = _at("cgroup_subsys_state.flags")
    css_reference_data: int | None
    reference_count: int  # in what css_reference_data points to, or else in the css itself
    css_online: int
    css_released: int
    css_dying: int

    kernfs_name: int = _at("kernfs_node.name")
    kernfs_inode: int
    kernfs_inode_bytes: int

    memory_usage: int  # these six from the css, not from the mem_cgroup around it
    memsw_usage: int | None
    swap_usage: int | None
    kmem_usage: int | None
    tcpmem_usage: int | None
    nodeinfo: int

    lru_sizes: int = _at("mem_cgroup_per_node.lru_zone_size")
    lru_sizes_count: int
    generation_sizes: int | None  # [generation][anon, file][zone]
    generation_sizes_count: int
    zones: int
    lists: tuple[ListHeads, ...]

    page_lru: int
    page_flags: int
    page_mapping: int
    page_mapcount: int
    folio_mapcount: int | None
    swap_backed: int  # bit number
    head: int  # bit number

    mapping_host: int = _at("address_space.host")
    inode_number: int = _at("inode.i_ino")
    inode_generation: int = _at("inode.i_generation")
    inode_links: int = _at("inode.i_nlink")
    inode_dentries: int = _at("inode.i_dentry.first")
    inode_superblock: int = _at("inode.i_sb")
    superblock_device: int = _at("super_block.s_dev")
    dentry_alias: int = _at("dentry.d_alias", "dentry.d_u.d_alias")
    dentry_name: int = _at("dentry.__d_name.name", "dentry.d_name.name")
    dentry_parent: int = _at("dentry.d_parent")

    read: int  # helpers
    read_string: int


def offsets_from(btf: Btf) -> Offsets:
    """Read everything the walk needs from a kernel's BTF; Unreadable names what is missing or impossible."""
    offsets = _ask(btf)
    for it in fields(offsets):
        value = getattr(offsets, it.name)
        most = 63 if it.name in ("swap_backed", "head") else _FARTHEST
        if isinstance(value, int) and not -_FARTHEST <= value <= most:
            raise Unreadable(btf.source, f"{it.name} is {value}, which is impossible")
    return offsets


def _ask(btf: Btf) -> Offsets:
    if not btf.has_enumerator("memory_cgrp_id"):
        raise Unreadable(btf.source, "this kernel has no memory cgroups (CONFIG_MEMCG)")
    controller = 8 * btf.enumerator("memory_cgrp_id")
    # Since 2b0d3d3e4fcf the count lies apart from the hot part of percpu_ref; before, inside it.
    split_reference = btf.has("cgroup_subsys_state.refcnt.data")
    # Since 67c0496e87d1 (v5.5) a kernfs id is one number, on 64-bit machines the inode's; before, that had 32 bits.
    old_inode = btf.has("kernfs_node.id.ino")
    # Since 6ae08ae3dea2 (v5.5) there are helpers for kernel memory alone; before, one pair read user memory as well.
    kernel_reads = btf.has_enumerator("BPF_FUNC_probe_read_kernel")
    generations = "mem_cgroup_per_node.lruvec.lrugen"
    has_generation_sizes = btf.has(f"{generations}.nr_pages")
    page = "folio" if btf.has("folio.mapping") else "page"  # struct folio came with 7b230db3b8d3 (v5.16)

    def from_css(member: str) -> int:
        return btf.offset(f"mem_cgroup.{member}") - btf.offset("mem_cgroup.css")

    def counter(member: str) -> int | None:
        return from_css(f"{member}.usage") if btf.has(f"mem_cgroup.{member}.usage") else None

    return Offsets(
        **{it.name: btf.offset(*it.metadata[_PATHS]) for it in fields(Offsets) if _PATHS in it.metadata},
        css_set_subsys=btf.offset("css_set.subsys") + controller,
        root_css=btf.offset("cgroup_root.cgrp.subsys") + controller,
        css_bytes=btf.size("cgroup_subsys_state"),
        css_reference_data=btf.offset("cgroup_subsys_state.refcnt.data") if split_reference else None,
        reference_count=btf.offset("percpu_ref_data.count" if split_reference else "cgroup_subsys_state.refcnt.count"),
        css_online=btf.enumerator("CSS_ONLINE"),
        css_released=btf.enumerator("CSS_RELEASED"),
        css_dying=btf.enumerator("CSS_DYING"),
        kernfs_inode=btf.offset("kernfs_node.id.ino" if old_inode else "kernfs_node.id"),
        kernfs_inode_bytes=4 if old_inode else 8,
        memory_usage=from_css("memory.usage"),
        memsw_usage=counter("memsw"),
        swap_usage=counter("swap"),
        kmem_usage=counter("kmem"),
        tcpmem_usage=counter("tcpmem"),
        nodeinfo=from_css("nodeinfo"),
        lru_sizes_count=btf.length("mem_cgroup_per_node.lru_zone_size"),
        generation_sizes=btf.offset(f"{generations}.nr_pages") if has_generation_sizes else None,
        generation_sizes_count=btf.length(f"{generations}.nr_pages") if has_generation_sizes else 0,
        zones=max(btf.length("mem_cgroup_per_node.lru_zone_size") // LRU_LISTS, 1),
        lists=_page_lists(btf),
        page_lru=btf.offset(f"{page}.lru"),
        page_flags=btf.offset(f"{page}.flags"),
        page_mapping=btf.offset(f"{page}.mapping"),
        page_mapcount=btf.offset(f"{page}._mapcount"),
        # Since 05c5323b2a34 (v6.10) a large folio counts its mappings in one place; before, only its first page's show.
        folio_mapcount=btf.offset("folio._large_mapcount") if btf.has("folio._large_mapcount") else None,
        swap_backed=btf.enumerator("PG_swapbacked"),
        head=btf.enumerator("PG_head"),
        read=Helper.PROBE_READ_KERNEL if kernel_reads else Helper.PROBE_READ,
        read_string=Helper.PROBE_READ_KERNEL_STR if kernel_reads else Helper.PROBE_READ_STR,
    )


# A cgroup's pages are on the classic lists or, while the multi-generational LRU is on (ec1c86b25f4b, v6.1), on
# lists by generation, kind and zone: `folios` since 6df1b2212950 (v6.3), `lists` before. Some versions of
# pahole flatten the three dimensions, so the number of zones is computed from the size.
def _page_lists(btf: Btf) -> tuple[ListHeads, ...]:
    per_node = "mem_cgroup_per_node.lruvec"
    classic = btf.offset(f"{per_node}.lists")
    # File before anonymous: a file can be named, and its pages are what reclaim frees first. Not the unevictable list:
    # since 07ca76067308 (v5.18) it is only counted, and its head poisoned.
    found = [
        ListHeads(offset=classic + btf.enumerator("LRU_INACTIVE_FILE") * LIST_HEAD_BYTES, many=2),
        ListHeads(offset=classic + btf.enumerator("LRU_INACTIVE_ANON") * LIST_HEAD_BYTES, many=2),
    ]
    for path in (f"{per_node}.lrugen.folios", f"{per_node}.lrugen.lists"):
        if btf.has(path):
            zones = max(btf.length("mem_cgroup_per_node.lru_zone_size") // LRU_LISTS, 1)
            rows = btf.size(path) // (LIST_HEAD_BYTES * zones)
            start = btf.offset(path)
            if max(rows, zones) > _MOST_LISTS:
                raise Unreadable(btf.source, f"{path} has {rows} times {zones} lists, which is impossible")
            by_kind = [row for kind in (1, 0) for row in range(kind, rows, _ANON_AND_FILE)]
            found += [ListHeads(offset=start + row * zones * LIST_HEAD_BYTES, many=zones) for row in by_kind]
            break
    return tuple(found)
