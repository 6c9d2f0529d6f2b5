"""The part of the walk's eBPF program that reads one memory cgroup: counters, name, pages and the file of one page."""

from __future__ import annotations

from zombiescope.kernel.ebpf import R1, R2, R3, R6, R7, R9, R10, Assembler, Register, field
from zombiescope.kernel.memcg_layout import CSS, NAME_BYTES, RECORD, SCRATCH, STATE
from zombiescope.kernel.memcg_offsets import LIST_HEAD_BYTES, LRU_LISTS, Offsets

_SWITCHED_OFF = -1  # in place of a counter this kernel does not have
_POINTER, _OBJECT, _NODE, _PER_NODE = -8, -16, -24, -32  # slots on the stack
_MAPPING_BITS = 3  # anonymous, or otherwise not a file's


class Visit(Assembler):
    """Writes the visit. In: R6 the css, R9 the state with a copy of the css behind it. Out: at the label "down"."""

    def __init__(self, offsets: Offsets, *, records: int, nodes: int, most: int) -> None:
        super().__init__()
        self.offsets, self._records, self._nodes, self.most = offsets, records, nodes, most

    def read(self, base: Register, into: int, size: int, source: Register, offset: int) -> None:
        """Copy `size` bytes of kernel memory; zeroes if it cannot be read, so a bad address does no harm."""
        self.set(R3, source)
        self.add(R3, offset)
        self.set(R1, base)
        self.add(R1, into)
        self.set(R2, size)
        self.call(self.offsets.read)

    def follow(self, target: Register, source: Register, offset: int) -> None:
        """target = the pointer kept at source + offset"""
        self.read(R10, _POINTER, 8, source, offset)
        self.load(target, R10, _POINTER)

    def _record(self, name: str, source: Register, offset: int | None) -> None:
        if offset is None:
            self.store_field(R7, RECORD, name, _SWITCHED_OFF)
        else:
            into, size = field(RECORD, name)
            self.read(R7, into, size, source, offset)

    def _record_string(self, name: str, source: Register, offset: int) -> None:
        self.follow(R3, source, offset)
        self.set(R1, R7)
        self.add(R1, field(RECORD, name)[0])
        self.set(R2, NAME_BYTES)
        self.call(self.offsets.read_string)

    def _keep(self, pointer: Register) -> None:
        self.store(R10, _OBJECT, pointer)

    def _kept(self) -> Register:
        self.load(R1, R10, _OBJECT)
        return R1

    def visit(self) -> None:
        """Fill in the next record; from here to "down" R7 is that record."""
        offsets = self.offsets
        self.load_field(R1, R9, STATE, "records")
        self.jump_if(R1, ">=", self.most, "pause")
        self.set(R2, R1)
        self.add(R2, 1)
        self.store_field(R9, STATE, "records", R2)
        self.multiply(R1, RECORD.itemsize)
        self.load_map_value(R7, self._records)
        self.add(R7, R1)
        for name, offset in (("serial", offsets.css_serial), ("css_id", offsets.css_id), ("flags", offsets.css_flags)):
            self.load(R1, R9, CSS + offset, size=field(RECORD, name)[1])
            self.store_field(R7, RECORD, name, R1)
        self.load(R1, R9, CSS + offsets.css_parent)
        self._record("parent", R1, offsets.css_serial)
        if offsets.css_reference_data is None:
            self._record("references", R6, offsets.reference_count)
        else:
            self.load(R1, R9, CSS + offsets.css_reference_data)
            self._record("references", R1, offsets.reference_count)
        self._record("memory", R6, offsets.memory_usage)
        self._record("memsw", R6, offsets.memsw_usage)
        self._record("swap", R6, offsets.swap_usage)
        self._record("kmem", R6, offsets.kmem_usage)
        self._record("tcpmem", R6, offsets.tcpmem_usage)
        self.load(R1, R9, CSS + offsets.css_cgroup)
        self._keep(R1)
        self._record("level", R1, offsets.cgroup_level)
        self.follow(R1, self._kept(), offsets.cgroup_kn)
        self._keep(R1)
        self.store_field(R7, RECORD, "inode", 0)
        self.read(R7, field(RECORD, "inode")[0], offsets.kernfs_inode_bytes, R1, offsets.kernfs_inode)
        self._record_string("name", self._kept(), offsets.kernfs_name)
        self._look_at_pages()

    def _look_at_pages(self) -> None:
        offsets = self.offsets
        lru = field(RECORD, "lru")[0]
        for kind in range(LRU_LISTS):
            self.store(R7, lru + 8 * kind, 0)
        for name in ("page", "mapping_bits", "file_device", "file_inode"):
            self.store_field(R7, RECORD, name, 0)
        for name in ("file_name", "file_directory"):
            self.store(R7, field(RECORD, name)[0], 0, size=1)
        self.store(R10, _NODE, 0)
        self.label("node")
        self.load(R1, R10, _NODE)
        self.jump_if(R1, ">=", self._nodes, "down")
        self.set(R2, R1)
        self.add(R2, 1)
        self.store(R10, _NODE, R2)
        self.shift_left(R1, 3)
        self.add(R1, R6)
        self.follow(R1, R1, offsets.nodeinfo)
        self.jump_if(R1, "==", 0, "node")
        self.store(R10, _PER_NODE, R1)
        self.read(R9, SCRATCH, 8 * offsets.lru_sizes_count, R1, offsets.lru_sizes)
        for kind in range(LRU_LISTS):
            self._add_up(range(kind, offsets.lru_sizes_count, LRU_LISTS), lru + 8 * kind)
        if offsets.generation_sizes is not None:
            self.load(R1, R10, _PER_NODE)
            self.read(R9, SCRATCH, 8 * offsets.generation_sizes_count, R1, offsets.generation_sizes)
            zones = offsets.zones
            for kind, into in (
                (0, lru),
                (1, lru + 16),
            ):  # active and inactive are not distinguished: all count as inactive
                places = [at for at in range(offsets.generation_sizes_count) if at // zones % 2 == kind]
                self._add_up(places, into)
        self._find_a_page()

    def _add_up(self, places: list[int] | range, into: int) -> None:
        self.load(R1, R7, into)
        for place in places:
            self.load(R2, R9, SCRATCH + 8 * place)
            self.add(R1, R2)
        self.store(R7, into, R1)

    # The first page of the first list that is not empty, of dying cgroups only: what live ones hold needs no
    # explanation. One jump a list, since the verifier gives up at 8,192 (BPF_COMPLEXITY_LIMIT_JMP_SEQ).
    def _find_a_page(self) -> None:
        offsets = self.offsets
        self.load_field(R1, R7, RECORD, "flags")
        self.mask(R1, offsets.css_dying)
        self.jump_if(R1, "==", 0, "node")
        self.load_field(R1, R7, RECORD, "page")
        self.jump_if(R1, "!=", 0, "node")
        for heads in offsets.lists:
            self.load(R1, R10, _PER_NODE)
            self.read(R9, SCRATCH, LIST_HEAD_BYTES * heads.many, R1, heads.offset)
            for at in range(0, LIST_HEAD_BYTES * heads.many, LIST_HEAD_BYTES):
                self.load(R1, R9, SCRATCH + at)
                self.load(R2, R10, _PER_NODE)
                self.add(R2, heads.offset + at)
                self.jump_if(R1, "!=", R2, "page")
        self.jump("node")
        self.label("page")
        self.jump_if(R1, "==", 0, "node")
        self._describe_page()

    def _describe_page(self) -> None:
        offsets = self.offsets
        self.subtract(R1, offsets.page_lru)
        self._keep(R1)
        self.store_field(R7, RECORD, "page", 1)
        self._record("page_flags", R1, offsets.page_flags)
        self._record("mapcount", self._kept(), offsets.page_mapcount)
        if offsets.folio_mapcount is not None:
            self.load_field(R1, R7, RECORD, "page_flags")
            self.mask(R1, 1 << offsets.head)
            self.jump_if(R1, "==", 0, "small")
            self._record("mapcount", self._kept(), offsets.folio_mapcount)
            self.label("small")
        self.follow(R1, self._kept(), offsets.page_mapping)
        self.set(R2, R1)
        self.mask(R2, _MAPPING_BITS)
        self.store_field(R7, RECORD, "mapping_bits", R2)
        self.jump_if(R2, "!=", 0, "node")
        self.follow(R1, R1, offsets.mapping_host)
        self.jump_if(R1, "==", 0, "node")
        self._keep(R1)
        self._record("file_inode", R1, offsets.inode_number)
        self._record("file_generation", self._kept(), offsets.inode_generation)
        self._record("file_links", self._kept(), offsets.inode_links)
        self.follow(R1, self._kept(), offsets.inode_superblock)
        self._record("file_device", R1, offsets.superblock_device)
        self.follow(R1, self._kept(), offsets.inode_dentries)
        self.jump_if(R1, "==", 0, "node")
        self.subtract(R1, offsets.dentry_alias)
        self._keep(R1)
        self._record_string("file_name", R1, offsets.dentry_name)
        self.follow(R1, self._kept(), offsets.dentry_parent)
        self.load(R2, R10, _OBJECT)
        self.jump_if(R1, "==", R2, "node")  # the top of a file system, or a file without one such as a memfd
        self._record_string("file_directory", R1, offsets.dentry_name)
        self.jump("node")
