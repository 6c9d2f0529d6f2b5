"""Kernel functions in which a core with nothing to do sits, so that waiting is not shown as work.

Only the innermost frame may be judged: packets are handled on top of the idle task, so a stack that merely contains
one of these (net_rx_action above cpuidle_enter_state) is work, and often the very work looked for.
Most are in the kernel's own list: what it places between __cpuidle_text_start and __cpuidle_text_end (`__cpuidle`,
kernel/sched/idle.c, cpu_in_idle). perf's list (symbol__is_idle, tools/perf/util/symbol.c) is the second source; of it
idle_cpu is left out (the scheduler asks it on busy cores), as are enter_idle and exit_idle (gone for long, and work).
"""

from __future__ import annotations

IDLE = frozenset(
    {
        # kernel/sched/idle.c: the loop, its polling (idle=poll) and its end without a driver
        "cpu_idle",  # the loop's name before v3.10
        "cpu_startup_entry",
        "cpu_idle_loop",
        "do_idle",
        "cpuidle_idle_call",
        "call_cpuidle",
        "cpu_idle_poll",
        "default_idle_call",
        # drivers/cpuidle: interrupts that end an idle state are taken in cpuidle_enter_state, where they are let in
        "cpuidle_enter",
        "cpuidle_enter_state",
        "cpuidle_enter_s2idle",
        "poll_idle",  # poll_state.c; also what guests with cpuidle-haltpoll do before they halt
        "cpuidle_poll_time",
        "default_enter_idle",  # cpuidle-haltpoll.c
        # arch/x86/kernel/process.c
        "arch_cpu_idle",  # and every other architecture's
        "default_idle",
        "amd_e400_idle",
        "mwait_idle",
        # arch/x86/include/asm: inlined, or not, by compiler and configuration
        "native_safe_halt",
        "mwait_idle_with_hints",
        # arch/x86 under a hypervisor
        "pv_native_safe_halt",  # kernel/paravirt.c
        "xen_safe_halt",  # xen/irq.c
        "tdx_safe_halt",  # coco/tdx/tdx.c
        "tdx_halt",
        "pvm_safe_halt",  # PVM guests (kernel/pvm.c, not in mainline)
        "pvm_safe_halt_hc",
        # drivers/idle/intel_idle.c
        "intel_idle",
        "intel_idle_irq",
        "intel_idle_ibrs",
        "intel_idle_xstate",
        "intel_idle_hlt",
        "intel_idle_hlt_irq_on",
        "intel_idle_s2idle",
        # drivers/acpi/processor_idle.c, arch/x86/kernel/acpi/cstate.c
        "acpi_safe_halt",
        "acpi_idle_do_entry",
        "acpi_idle_enter",
        "acpi_idle_enter_bm",
        "acpi_idle_enter_simple",  # older kernels
        "acpi_idle_enter_s2idle",
        "acpi_idle_lpi_enter",
        "acpi_processor_ffh_cstate_enter",
        "acpi_processor_ffh_lpi_enter",
        "io_idle",
        # arch/arm64/kernel/idle.c, drivers/firmware/psci/psci.c
        "cpu_do_idle",  # riscv's too
        "psci_cpu_suspend_enter",
        # arch/powerpc, arch/s390: perf's list
        "pseries_dedicated_idle_sleep",
        "ppc64_runlatch_off",
        "psw_idle",
        "psw_idle_exit",
    }
)


def is_idle(leaf_name: str) -> bool:
    """Whether a stack whose innermost frame has this name only waits: ".isra.0" and " [module]" do not matter."""
    return leaf_name.split(" [", 1)[0].split(".", 1)[0] in IDLE
