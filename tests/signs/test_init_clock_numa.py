"""busy_init, slow_clock and numa_lopsided: found, silent and blind; their probes on captured text."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from tests.files import node_of
from tests.nodes import node, read
from tests.probes.machine import AT

from zombiescope.core import Blind, Finding, Host, Reading, Unparsable, Unreadable
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import crash_looping_unit_to_busy_init, mount_explosion_to_busy_init, slow_clock_to_saturated_core
from zombiescope.probes import clocksource, numa_memory
from zombiescope.signs import busy_init, crash_looping_unit, numa_lopsided, slow_clock

STEPS = (0.0, 5.0, 10.0)


def case(sign: ModuleType, *readings: Reading) -> Case:
    return examine(node([*readings]), signs={sign.__name__.rpartition(".")[2]: sign}, laws={})


def used(who: str, cores: float, up: float = 9_000.0) -> list[Reading]:
    times = {"process_user_seconds_total": cores / 2, "process_system_seconds_total": cores / 2}
    found = [read(what, f"process:{who}", 3 + rate * at, at) for what, rate in times.items() for at in STEPS]
    pressed = [read("pressure_cpu_waiting_seconds_total", "node", 0.5 * at, at) for at in STEPS]
    return [*found, *pressed, read("uptime_seconds", "node", up, 0)]


def test_a_busy_pid_1_with_the_mounts_that_it_reads() -> None:
    mounts = [read("mounts", "node", 20_000, 0), read("mounts_read_cpu_seconds", "node", 0.04, 0)]
    (found,) = case(busy_init, *used("systemd[1]", 0.9), *mounts).root_causes
    assert found.subject == "process:systemd[1]" and found.says == (
        "used 0.90 of a core for 10.0 s, of the one that it has; "
        "there are 20,000 mounts, and one read of their table takes 40.0 ms"
    )


@pytest.mark.parametrize(
    "readings",
    [used("systemd[1]", 0.1), used("systemd[1]", 0.9, up=60.0), used("systemd[812]", 0.9), used("trainer[1]", 0.9)],
    ids=["a little", "boot", "a user's own", "a container's program"],
)
def test_pid_1_is_left_alone(readings: list[Reading]) -> None:
    result = case(busy_init, *readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


@pytest.mark.parametrize(("cores", "waits", "found"), [(0.4, 0.5, True), (0.4, 0.0, False), (0.1, 0.9, False)])
def test_a_pid_1_that_waits_for_a_core_is_as_busy(cores: float, waits: float, found: bool) -> None:
    """Beside other work it gets less done; one that only waits has little to do."""
    waited = [read("process_run_delay_seconds_total", "process:systemd[1]", waits * at, at) for at in STEPS]
    result = case(busy_init, *used("systemd[1]", cores), *waited)
    assert [it.says for it in result.findings] == (
        ["used 0.40 of a core for 10.0 s, of the one that it has, and waited for one for 50 % of it"] * found
    )


def finding(subject: str) -> Finding:
    timeline = node([read("x", subject, 1, at) for at in (0.0, 10.0)])
    return Finding(subject=subject, span=timeline.span, says="", evidence=(read("x", subject, 1, 0),))


def test_what_keeps_pid_1_busy() -> None:
    def init(stack: str) -> list[tuple[float, int, str, str]]:
        return [(at / 10, 0, "systemd[1]", stack) for at in range(100)]

    reads, waits = (node([], samples=init(it)) for it in ("read;show_mountinfo", "main;work"))
    cause, effect = finding("node"), finding("process:systemd[1]")
    assert list(mount_explosion_to_busy_init.grounds(cause, effect, reads))
    assert not list(mount_explosion_to_busy_init.grounds(cause, effect, waits))
    unit = finding("unit:a.service")
    for often, tied in ((2.0, True), (0.1, False)):
        restarts = node([read("unit_restarts_total", "unit:a.service", often * at, at) for at in STEPS])
        assert bool(list(crash_looping_unit_to_busy_init.grounds(unit, effect, restarts))) == tied


@pytest.mark.parametrize(("stack", "accused"), [("read;show_mountinfo", True), ("main;work", False)])
def test_a_pid_1_too_busy_to_answer_is_accused_where_its_stacks_show_what_it_does(stack: str, accused: bool) -> None:
    """Its units could not be seen: that one of them keeps it busy is ruled out by stacks, or by nothing."""
    timeline = node(
        used("systemd[1]", 0.9),
        samples=[(at / 10, 0, "systemd[1]", stack) for at in range(100)],
        unseen={"unit_restarts_total": "no answer in 5 s", "systemd_answer_seconds": "no answer in 5 s"},
    )
    law = {"crash_looping_unit_to_busy_init": crash_looping_unit_to_busy_init}
    result = examine(timeline, signs={"busy_init": busy_init, "crash_looping_unit": crash_looping_unit}, laws=law)
    assert [it.sign for it in result.root_causes] == ["busy_init"] * accused
    assert "; a question got no answer in 5 s" in result.findings[0].says and not result.unsure
    (riddle,) = result.unexplained
    (candidate,) = riddle.candidates
    assert candidate.blind != accused and ("starts no units" in candidate.why_not) == accused


def test_a_clock_that_is_slow_and_one_with_an_odd_name() -> None:
    could = read("clocksources", "clock:hpet", 3, 0, "hpet acpi_pm tsc")
    line = read("kernel_log", "node", 4, 0, "clocksource: Marking clocksource 'tsc' as unstable because of skew")
    result = case(slow_clock, read("clock_read_seconds", "clock:hpet", 1.6e-6, 0, "hpet"), could, line)
    (found,) = result.findings
    assert "takes 1,600 ns for each question" in found.says and "gave up another clock" in found.says
    assert result.unsure  # without stacks nobody knows what it costs
    own = read("clock_call_seconds", "clock:hpet", 100e-9, 0, "hpet")
    assert case(slow_clock, read("clock_read_seconds", "clock:hpet", 1.6e-6, 0, "hpet"), own).findings
    fast = case(slow_clock, read("clock_read_seconds", "clock:kvm-clock", 90e-9, 0, "kvm-clock"))
    assert fast.verdicts[0].state == "clear" and fast.verdicts[0].says == "kvm-clock: 90 ns a call"


def test_a_processor_on_which_every_call_is_slow() -> None:
    own = read("clock_call_seconds", "clock:tsc", 1.1e-6, 0, "tsc")
    result = case(slow_clock, read("clock_read_seconds", "clock:tsc", 1.4e-6, 0, "tsc"), own)
    assert not result.findings and result.verdicts[0].state == "clear"


def test_a_core_full_of_clock_reads() -> None:
    def core(stack: str) -> list[tuple[float, int, str, str]]:
        return [(at / 10, 0, "db[7]", stack) for at in range(100)]

    read_it, other = (node([], samples=core(it)) for it in ("clock_gettime;ktime_get;read_hpet", "main;work"))
    assert list(slow_clock_to_saturated_core.grounds(finding("clock:hpet"), finding("cpu:0"), read_it))
    assert not list(slow_clock_to_saturated_core.grounds(finding("clock:hpet"), finding("cpu:0"), other))


def nodes(free: tuple[float, ...], *, waiting: float = 0.3, foreign: float = 9_000.0, mode: int = 0) -> list[Reading]:
    found = [read("pressure_memory_waiting_seconds_total", "node", waiting * at, at) for at in STEPS]
    for number, share in enumerate(free):
        for at in STEPS:
            found.append(read("numa_memory_bytes", f"numa:{number}", 1e9, at))
            found.append(read("numa_memory_free_bytes", f"numa:{number}", 1e9 * share, at))
            found.append(read("numa_foreign_total", f"numa:{number}", foreign * at, at))
    return [*found, *(read("zone_reclaim_mode", "node", mode, at) for at in STEPS)]


def test_one_node_is_full_and_the_other_is_not() -> None:
    (found,) = case(numa_lopsided, *nodes((0.01, 0.4))).root_causes
    assert found.subject == "numa:0" and "has 1.0 % of its memory free, numa node 1 has 40 %" in found.says
    assert "9,000 pages a second had to be taken elsewhere" in found.says
    (reclaims,) = case(numa_lopsided, *nodes((0.01, 0.4), foreign=0, mode=1)).root_causes
    assert "zone_reclaim_mode" in reclaims.says


@pytest.mark.parametrize(
    "readings",
    [
        nodes((0.01, 0.02)),
        nodes((0.3, 0.4)),
        nodes((0.01, 0.4), waiting=0.0),
        nodes((0.01, 0.4), foreign=10),
        nodes((0.01,), mode=1),
    ],
    ids=["all full", "none full", "nobody waits", "nothing taken elsewhere", "one node"],
)
def test_nodes_are_left_alone(readings: list[Reading]) -> None:
    result = case(numa_lopsided, *readings)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


@pytest.mark.parametrize("sign", [busy_init, slow_clock, numa_lopsided])
def test_blind(sign: ModuleType) -> None:
    result = examine(node([], unseen=dict.fromkeys(sign.NEEDS, "permission denied")), signs={"it": sign}, laws={})
    assert result.verdicts[0].state == "blind"


def root(folder: Path, files: dict[str, str]) -> Host:
    return node_of(folder, {"at": str(AT)} | files)


def test_the_clock_of_a_copy_and_of_this_machine(tmp_path: Path) -> None:
    folder = "sys/devices/system/clocksource/clocksource0"
    files = {f"{folder}/current_clocksource": "hpet\n", f"{folder}/available_clocksource": "tsc hpet acpi_pm\n"}
    known, *unknown = clocksource.read(root(tmp_path, files))
    assert isinstance(known, Reading) and known.text == "tsc hpet acpi_pm"
    assert len(unknown) == 2 and all(isinstance(it, Blind) for it in unknown)
    for text in ("", "a\nb\n", "x" * 100):
        with pytest.raises(Unparsable):
            clocksource.parse(text, "/x")
    try:
        here = [it for it in clocksource.read(Host()) if isinstance(it, Reading) and it.what == "clock_read_seconds"]
    except Unreadable:
        pytest.skip("no clocksource is shown here")
    assert 1e-9 < here[0].value < 1e-3


def test_memory_by_node(tmp_path: Path) -> None:
    folder = "sys/devices/system/node"
    text = "Node 0 MemTotal:       1000 kB\nNode 0 MemFree:        10 kB\n"
    files = {f"{folder}/node0/cpulist": "0-3\n", f"{folder}/node0/meminfo": text, f"{folder}/node1/cpulist": "\n"}
    files |= {f"{folder}/node0/numastat": "numa_hit 5\nnuma_foreign 7\n", "proc/sys/vm/zone_reclaim_mode": "1\n"}
    found = [it for it in numa_memory.read(root(tmp_path, files)) if isinstance(it, Reading)]
    assert [(it.what, it.subject, it.value) for it in found] == [
        ("numa_memory_bytes", "numa:0", 1_024_000),
        ("numa_memory_free_bytes", "numa:0", 10_240),
        ("numa_foreign_total", "numa:0", 7),
        ("zone_reclaim_mode", "node", 1),
    ]
    for text in ("", "Node 0 MemTotal: x kB\n", "Node 0 MemTotal: 1 kB\n"):
        with pytest.raises(Unparsable):
            numa_memory.parse_meminfo(text, "/x")


def test_a_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    files = {"sys/devices/system/cpu/possible": "0-1\n", "proc/meminfo": "MemTotal: 1000 kB\nMemFree: 10 kB\n"}
    found = [it for it in numa_memory.read(root(tmp_path / "a", files)) if isinstance(it, Reading)]
    assert [(it.what, it.subject, it.value) for it in found] == [
        ("numa_memory_bytes", "numa:0", 1_024_000),
        ("numa_memory_free_bytes", "numa:0", 10_240),
    ]
    with pytest.raises(Unreadable):
        list(numa_memory.read(root(tmp_path / "b", {"proc/meminfo": "MemTotal: 1000 kB\n"})))
