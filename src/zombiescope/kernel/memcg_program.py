"""The eBPF program that visits every memory cgroup, dying ones too, a batch at a time, and fills in a record for each.

A removed cgroup stays among its parent's children until its last reference is gone (css_release_work_fn), so a walk
over `children` and `sibling` meets every dying cgroup. The walk needs no stack: down to the first child, else to the
next sibling, else up. It runs under RCU, like the kernel's own css_next_descendant_pre, and follows its rule too:
`sibling` of a css that is CSS_RELEASED is invalid (the walk is then restarted). Between two batches nothing is held,
so the css to continue with must still have its serial number. It writes only to our own two arrays.
"""

from __future__ import annotations

from zombiescope.core.errors import Unreadable
from zombiescope.kernel.ebpf import R0, R1, R2, R3, R6, R7, R8, R9, Helper, field
from zombiescope.kernel.memcg_layout import BROKEN, CSS, DONE, MORE, SCRATCH_BYTES, STALE, STATE
from zombiescope.kernel.memcg_offsets import Offsets
from zombiescope.kernel.memcg_visit import Visit

# A visit takes about 2 µs. 64 of them stay below the 0.15 ms after which a batch is cut short anyway: a core is not
# kept from other work (interrupts stay on) longer than by a normal system call.
MOST_VISITS = 64
BUDGET_NS = 150_000


def visits_per_batch(nodes: int) -> int:
    """Fewer on machines with many NUMA nodes, as each visit reads each node: bounds time and the verifier's work."""
    return max(1, MOST_VISITS // nodes)


def assemble(offsets: Offsets, *, state: int, records: int, nodes: int, armed: bool) -> bytes:
    """The program for one kernel; `armed` programs wait for a system call of the thread named in the state."""
    if max(offsets.css_bytes, 8 * offsets.generation_sizes_count, 8 * offsets.lru_sizes_count) > SCRATCH_BYTES:
        raise Unreadable("BTF", "the structs of this kernel are too large for the walk")
    walk = _Walk(offsets, records=records, nodes=nodes, most=visits_per_batch(nodes))
    try:
        return walk.whole(state, armed=armed)
    except ValueError as error:  # only a bad BTF file gives offsets that do not fit in an instruction
        raise Unreadable("BTF", f"not the BTF of a kernel: {error}") from None


# R6: the current css. R7: its record. R8: steps so far. R9: the state.
class _Walk(Visit):
    def whole(self, state: int, *, armed: bool) -> bytes:
        self.load_map_value(R9, state)
        if armed:
            self._only_when_armed()
        self.call(Helper.KTIME_GET_NS)
        self.store_field(R9, STATE, "started_ns", R0)
        self.store_field(R9, STATE, "records", 0)
        self.store_field(R9, STATE, "status", MORE)
        self._begin()
        self.visit()
        self._go_on()
        self._end()
        return self.assemble()

    def _only_when_armed(self) -> None:
        self.call(Helper.GET_CURRENT_PID_TGID)
        self.load_field(R1, R9, STATE, "armed")
        self.jump_if(R0, "!=", R1, "exit")
        self.store_field(R9, STATE, "armed", 0)

    def _begin(self) -> None:
        offsets = self.offsets
        self.load_field(R6, R9, STATE, "cursor")
        self.jump_if(R6, "!=", 0, "resume")
        # Any css of the memory controller leads to its hierarchy and so to the topmost css: we start from our own.
        self.call(Helper.GET_CURRENT_TASK)
        self.follow(R6, R0, offsets.task_cgroups)
        self.follow(R6, R6, offsets.css_set_subsys)
        self.read(R9, field(STATE, "own")[0], 8, R6, offsets.css_serial)
        self.follow(R6, R6, offsets.css_cgroup)
        self.follow(R7, R6, offsets.cgroup_root)
        self.store_field(R9, STATE, "hierarchy", 0)
        self.read(R9, field(STATE, "hierarchy")[0], 4, R7, offsets.root_hierarchy_id)
        self.follow(R6, R7, offsets.root_css)
        self.jump_if(R6, "==", 0, "broken")
        self.store_field(R9, STATE, "root", R6)
        self.store_field(R9, STATE, "climbing", 0)
        self.jump("begun")
        self.label("resume")
        self.follow(R1, R6, offsets.css_serial)
        self.load_field(R2, R9, STATE, "serial")
        self.jump_if(R1, "!=", R2, "stale")
        self.label("begun")
        self.set(R8, 0)
        self.label("next")
        self.jump_if(R8, ">=", self.most, "pause")
        self.load_field(R1, R9, STATE, "limit")
        self.jump_if(R8, ">=", R1, "pause")
        self.add(R8, 1)
        self.call(Helper.KTIME_GET_NS)
        self.load_field(R1, R9, STATE, "started_ns")
        self.subtract(R0, R1)
        self.jump_if(R0, ">", BUDGET_NS, "pause")
        self.read(R9, CSS, offsets.css_bytes, R6, 0)
        self.load(R1, R9, CSS + offsets.css_flags, size=4)
        self.jump_if(R1, "&", offsets.css_released, "stale")
        self.load_field(R1, R9, STATE, "climbing")
        self.jump_if(R1, "!=", 0, "up")

    def _go_on(self) -> None:
        offsets = self.offsets
        self.label("down")
        self.load(R1, R9, CSS + offsets.css_children)
        self.jump_if(R1, "==", 0, "broken")
        self.set(R2, R6)
        self.add(R2, offsets.css_children)
        self.jump_if(R1, "==", R2, "childless")
        self.subtract(R1, offsets.css_sibling)
        self.set(R6, R1)
        self.jump("next")
        self.label("childless")
        self.store_field(R9, STATE, "climbing", 1)
        self.label("up")
        self.load_field(R1, R9, STATE, "root")
        self.jump_if(R6, "==", R1, "done")
        self.load(R1, R9, CSS + offsets.css_sibling)
        self.load(R2, R9, CSS + offsets.css_parent)
        self.jump_if(R1, "==", 0, "broken")
        self.jump_if(R2, "==", 0, "broken")
        self.set(R3, R2)
        self.add(R3, offsets.css_children)
        self.set(R6, R2)
        self.jump_if(R1, "==", R3, "next")
        self.subtract(R1, offsets.css_sibling)
        self.set(R6, R1)
        self.store_field(R9, STATE, "climbing", 0)
        self.jump("next")

    def _end(self) -> None:
        for name, status in (("done", DONE), ("stale", STALE), ("broken", BROKEN)):
            self.label(name)
            self.store_field(R9, STATE, "status", status)
            self.jump("finish")
        self.label("pause")
        self.store_field(R9, STATE, "cursor", R6)
        self.follow(R1, R6, self.offsets.css_serial)
        self.store_field(R9, STATE, "serial", R1)
        self.label("finish")
        self.call(Helper.KTIME_GET_NS)
        self.load_field(R1, R9, STATE, "started_ns")
        self.subtract(R0, R1)
        self.store_field(R9, STATE, "batch_ns", R0)
        self.label("exit")
        self.set(R0, 0)
        self.exit()
