"""vm_paused: no core worked and time is missing; a starved recorder, idle cores and one stuck core are not that."""

from __future__ import annotations

from tests.nodes import node, read

from zombiescope.core import Case, Reading
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import vm_paused_to_driver_reset, vm_paused_to_soft_lockup
from zombiescope.probes.proc_stat import MODES
from zombiescope.signs import driver_reset, soft_lockup, vm_paused

PAUSE = 12.0


def machine(**in_the_gap: dict[str, float]) -> list[Reading]:
    """Four cores, two busy and two idle, sampled ten times a second; then `PAUSE` seconds without a sample.

    `in_the_gap` says what each core's clocks show for it: {"c0": {"user": 12.0}}.
    """
    found = []
    for cpu in range(4):
        clock = dict.fromkeys(MODES, 100.0)
        for step in range(40):
            at = step / 10 + (PAUSE if step >= 20 else 0.0)
            clock["user" if cpu < 2 else "idle"] += 0.1
            if step == 20:
                for mode, seconds in in_the_gap.get(f"c{cpu}", {}).items():
                    clock[mode] += seconds
            found += [read(f"cpu_{mode}_seconds_total", f"cpu:{cpu}", clock[mode], at) for mode in MODES]
    return found


IDLE = {"c2": {"idle": PAUSE}, "c3": {"idle": PAUSE}}  # the clock of an idle core jumps over the pause
LOCKUP = "watchdog: BUG: soft lockup - CPU#{}  stuck for 13s! [trainer:7]".replace("}  ", "} ")


def case(*readings: Reading) -> Case:
    return examine(node(readings), signs={"vm_paused": vm_paused}, laws={})


def test_the_whole_machine_stood_still() -> None:
    (found,) = case(*machine(**IDLE)).root_causes
    assert found.says == (
        "stood still for 12.1 s: nothing could be read, no core of 4 worked, and 2 that had work lack that time"
    )
    assert found.evidence[0].what == "cpu_unaccounted_seconds" and found.evidence[0].value > 11.5
    assert found.harm.waited_cores


def test_a_recorder_that_was_started_anew_saw_nothing() -> None:
    """It writes anew what never changes. Within one recording the same is written once: here the text differs."""
    cores = [read("cpus_possible", "node", 4, at, f"0-3 {at}") for at in (0.0, 2.0 + PAUSE)]
    assert case(*machine(**IDLE), cores[0]).findings
    assert not case(*machine(**IDLE), *cores).findings


def up(*seconds: tuple[float, float]) -> list[Reading]:
    return [read("uptime_seconds", "node", value, at) for at, value in seconds]


def test_a_suspended_machine_lacks_the_time_of_every_core_and_a_clock_that_is_set_does_too() -> None:
    (found,) = case(*machine(), *up((0.0, 1_000.0), (15.0, 1_015.0))).root_causes
    assert "and 4 that had work" in found.says
    assert not case(*machine(), *up((0.0, 1_000.0), (15.0, 1_003.0))).findings  # set ahead by twelve seconds
    assert not case(*machine(), *up((0.0, 1_000.0))).findings and not case(*machine()).findings


def test_a_starved_recorder_is_no_pause() -> None:
    busy = {f"c{cpu}": {"user": PAUSE} for cpu in range(4)}
    one = {"c0": {"user": PAUSE}, **IDLE}  # the other busy core's ticks were lost: its interrupts were off
    idle = {f"c{cpu}": {"idle": PAUSE} for cpu in range(4)}
    alone = {"c1": {"idle": PAUSE}, **IDLE}  # only one core lacks the time
    for gap in (busy, one, idle, alone):
        result = case(*machine(**gap))
        assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_lockups_and_resets_that_come_of_it() -> None:
    lines = [read("kernel_log", "node", 0, 14.5 + cpu / 100, LOCKUP.format(cpu)) for cpu in (0, 1)]
    watchdog = "NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 0 timed out 13000 ms"
    signs = {"vm_paused": vm_paused, "soft_lockup": soft_lockup, "driver_reset": driver_reset}
    laws = {
        "vm_paused_to_soft_lockup": vm_paused_to_soft_lockup,
        "vm_paused_to_driver_reset": vm_paused_to_driver_reset,
    }
    both = [*lines, read("kernel_log", "node", 4, 15.0, watchdog)]
    result = examine(node([*machine(**IDLE), *both]), signs=signs, laws=laws)
    assert [it.sign for it in result.root_causes] == ["vm_paused"] and len(result.links) == 3
    before = [read("kernel_log", "node", 0, 1.0, LOCKUP.format(0).replace("13s", "1s"))]
    assert not examine(node([*machine(**IDLE), *before]), signs=signs, laws=laws).links
