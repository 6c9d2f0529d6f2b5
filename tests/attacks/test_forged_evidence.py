"""Attacks on an agent that may fix things by itself: what a container chooses is not enough to make it act."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_fix import recorded
from tests.conftest import PROJECT, Run
from tests.diagnosis.incident import SECONDS, dead, incident
from tests.nodes import node, read
from tests.remedies.planned import finding, plan_for
from tests.signs.test_crash_looping_unit import LOGGED, WAITS, churn, restarts
from tests.signs.test_starved_softirq import thread

from zombiescope.agent.look import followed
from zombiescope.agent.output import Output
from zombiescope.agent.remedier import REFUSED, Remedier
from zombiescope.agent.remedies import Remedies
from zombiescope.agent.remedying import SEEN, Choosing
from zombiescope.agent.settings import Settings
from zombiescope.conformance._member import complaints
from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.diagnosis.unattended import why_watched
from zombiescope.members.rooms import healthy
from zombiescope.outputs.json import shape
from zombiescope.treatment.ledger import Ledger

UNIT = "ecs.service"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may fix: run the tests as root")


def forged_log() -> Timeline:
    """systemd cannot be asked; lines in its words are in the kernel's log, and cgroups of that name stay behind."""
    lines = [read("kernel_log", "node", 6, 10.0 * n, LOGGED.format(40 + n)) for n in range(SECONDS // 10)]
    made = list(range(SECONDS + 1))
    return node([*lines, *churn(UNIT, made, [0] * len(made)), *dead()])


def named_like_a_unit() -> Timeline:
    """A unit fails now and then. A container makes cgroups of its name below its own, and they stay behind.

    systemd told the unit's cgroup of fifty others only.
    """
    made = list(range(SECONDS + 1))
    counts = [it for it in restarts([float(it) for it in made[::5]], UNIT, WAITS) if it.what != "unit_cgroup"]
    forged = [
        Reading(what=it.what, subject=f"family:/docker/<id>/{UNIT}", value=it.value, at=it.at, source=it.source)
        for it in churn(UNIT, made, [0] * len(made))
    ]
    return node([*counts, *forged, *dead()])


def named_like_scopes() -> Timeline:
    """Folders of cgroups that are called like scopes, the live session of an administrator among them."""
    names = " ".join(["session-3.scope", *(f"run-r{number}.scope" for number in range(99))])
    every = range(0, SECONDS, 30)
    return node([read("empty_scopes", "node", 20_000 + 500 * at, float(at), names) for at in every])


FORGED = {"log lines": forged_log, "cgroups named like a unit": named_like_a_unit, "scopes": named_like_scopes}


def findings(timeline: Timeline) -> list[Mapping[str, Any]]:
    case = examine(timeline)
    return list(followed(case, shape(case)))


@pytest.mark.parametrize("name", FORGED)
def test_nothing_is_begun_on_what_a_container_chose(tmp_path: Path, name: str) -> None:
    """The agent looks again and again at a node with forged evidence."""
    found = findings(FORGED[name]())
    assert any(it["root"] for it in found), "or nothing would be begun anyway"
    (tmp_path / "agent").mkdir()
    settings = Settings(dir=str(tmp_path), remediate="on", ledger=str(tmp_path / "ledger"))
    with selectors.DefaultSelector() as selector:
        remedies = Remedies(settings, selector, Output("text"))
        for _ in range(SEEN + 2):
            remedies.looked(found)
        remedies.close()
    assert remedies.newest == [] and not list((tmp_path / "agent").iterdir())


def test_what_systemd_and_the_kernel_say_is_acted_on() -> None:
    """The same unit where nothing is forged, or the tests above test nothing."""
    found, choosing = findings(incident()), Choosing()
    chosen = [choosing.choose(found, 1e9 + 60 * look) for look in range(SEEN)][-1]
    assert chosen is not None
    assert (chosen["sign"], chosen["subject"], chosen["remedy"]) == (
        *("crash_looping_unit", f"unit:{UNIT}"),
        "stop_leaking_unit",
    )


@pytest.mark.parametrize(
    ("name", "wanted", "says"),
    [
        ("log lines", "crash_looping_unit", "every plan for it is advice"),
        ("cgroups named like a unit", "crash_looping_unit", "every plan for it is advice"),
        ("scopes", "empty_scopes", "stop_empty_scopes rests on names of processes, threads, cgroups"),
    ],
)
def test_the_fix_that_the_agent_starts_refuses_too(
    tmp_path: Path, zombiescope: Run, name: str, wanted: str, says: str
) -> None:
    """The agent's look and that of `fix` are not the same: the evidence may be forged in between."""
    folder = recorded(FORGED[name](), tmp_path / "recording")
    done = zombiescope("fix", wanted, "--recording", folder, "--unattended", expect=2)
    assert says in done.stderr and "a person has to decide" in done.stderr
    assert zombiescope("fix", wanted, "--recording", folder, expect=1).stdout, "a person sees the plan"


def test_a_card_of_a_container_makes_no_plan_safe_for_the_agent() -> None:
    """Its threaded card is called eth0 in its own namespace, and so are the kernel's threads for it; ours is not."""
    starved = thread("ksoftirqd/1", [0.9] * 10, [0.0] * 10)
    napi = thread("napi/eth0-8193", [0.1] * 10, [0.0] * 10)
    card = [read("nic_tx_timeouts_total", "nic:eth0", 0, 0.0), read("nic_irq_cpu", "irq:9", 1, 0.0, "eth0-0")]
    case = examine(node([*starved, *napi, *card]), kernel="6.8.0")
    (plan,) = [it for it in case.plans if it.name == "raise_napi_priority"]
    assert plan.risk == "safe", "or it tests nothing"
    assert "which a container can choose" in why_watched(plan)


def test_a_finding_from_names_alone_is_not_acted_on_by_a_remedy_that_rests_on_counters() -> None:
    """The remedy rests on what nobody chooses; the evidence of this finding does not."""
    for what, acts in (("defunct_children", True), ("kernel_log", False), ("container_info", False)):
        evidence = read(what, "process:x[7]", 70, 5.0)
        plan = plan_for(finding("defunct_processes", "process:x[7]", evidence), "reap_defunct", node([evidence]))
        assert plan is not None and (why_watched(plan) == "") is acts


# Named as the agent of a cloud, and as the kernel's threads; it keeps a core busy, and a child that it does not reap.
FORGER = """
import ctypes, os, sys, time
name, folder = sys.argv[1:]
ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
for number in range(30):
    if folder and number % 3 == 0:
        os.mkdir(f"{folder}/{number}")
        os.rmdir(f"{folder}/{number}")
    if not os.fork():
        os._exit(1)
print("ready", flush=True)
end = time.monotonic() + 120
while time.monotonic() < end:
    sum(range(10_000))
"""
NAMES = ("napi/eth0-8193", "ksoftirqd/0", "agent")


@contextmanager
def forging(folder: Path) -> Iterator[None]:
    processes = [
        subprocess.Popen([sys.executable, "-c", FORGER, name, str(folder)], stdout=subprocess.PIPE, text=True)
        for name in NAMES[:1]
    ] + [
        subprocess.Popen([sys.executable, "-c", FORGER, name, ""], stdout=subprocess.PIPE, text=True)
        for name in NAMES[1:]
    ]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]


@pytest.fixture
def own_cgroup(memory_cgroups: None) -> Iterator[Path]:  # noqa: ARG001
    """A cgroup called like a unit, below one that stands for a container's."""
    from zombiescope.lab._zombies import memory_folder

    top = Path(memory_folder()) / "zslab-forged"
    folder = top / UNIT
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        folder.rmdir()
        top.rmdir()


@as_root
@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.parametrize("wanted", [f"crash_looping_unit:unit:{UNIT}", f"unit:{UNIT}"])
def test_the_real_remedier_beside_real_forgers_changes_nothing(tmp_path: Path, own_cgroup: Path, wanted: str) -> None:
    """Processes called like kernel threads and an agent, a cgroup called like its unit: told to fix it, it refuses."""
    ledger = Ledger(str(tmp_path / "ledger"))
    asked = {"wanted": wanted, "prove": 2.0, "set": ["kmsg.PAST=0"], "ledger": ledger.folder}
    with forging(own_cgroup):
        result = Remedier(asked).run()
    assert (result["result"], result["fixes"]) == (REFUSED, []) and result["why"], result
    assert ledger.fixes() == []


@pytest.mark.parametrize("lie", ["says nothing", "rests on names", "rests on nothing that was found"])
def test_a_remedy_from_outside_has_to_say_what_it_rests_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    """A remedy of somebody else that is silent about its facts is left to a person."""
    rests: dict[str, str] = {
        "says nothing": "",
        "rests on names": 'RESTS_ON = {"container_info": Witness.NAMES}',
        "rests on nothing that was found": 'RESTS_ON = {"cgroups_known": Witness.KERNEL}',
    }
    text = f'''"""x"""
from zombiescope.core import Plan, Step
from zombiescope.core.witness import Witness
CURES = ("zombie_cgroups",)
{rests[lie]}
def plan(finding, case, timeline):
    return Plan(cures=finding, risk="safe", proof=CURES, steps=(Step(says="x", argv=("true",)),))
'''
    (tmp_path / "remedies").mkdir()
    (tmp_path / "remedies" / "mine.py").write_text(text)
    monkeypatch.setenv("ZOMBIESCOPE_PATH", str(tmp_path))
    evidence = read("container_info", "container:x", 1, 5.0)
    plan = plan_for(finding("zombie_cgroups", "controller:memory", evidence), "mine", node([evidence]))
    assert plan is not None and why_watched(plan)
    said = [it.says for it in complaints("remedies", "mine")]
    assert ("it makes commands and has no RESTS_ON" in said) is (lie == "says nothing")
    assert "it makes commands and has no FORMS" in said


def test_a_remedy_may_not_trust_a_series_more_than_its_probe_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A remedy that calls the names of cgroups the kernel's word."""
    facts = (
        'RESTS_ON = {"empty_scopes": Witness.KERNEL, "no_such_series": Witness.KERNEL, "agent_uses": Witness.ABSENCE}'
    )
    text = f'"""x"""\nfrom zombiescope.core.witness import Witness\nCURES = ("zombie_cgroups",)\n{facts}\n'
    (tmp_path / "remedies").mkdir()
    (tmp_path / "remedies" / "mine.py").write_text(f"{text}def plan(finding, case, timeline): ...\n")
    monkeypatch.setenv("ZOMBIESCOPE_PATH", str(tmp_path))
    said = [it.says for it in complaints("remedies", "mine")]
    assert said[0].startswith("for empty_scopes names of processes") and said[1].startswith(
        "it rests on no_such_series"
    )
    assert len(said) == 2


def test_every_remedy_that_acts_is_in_the_table_of_what_it_rests_on() -> None:
    """A remedy that nobody can look up."""
    page = (PROJECT / "docs/security.md").read_text()
    for name, remedy in healthy("remedies").items():
        rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert bool(rows) is hasattr(remedy, "FORMS"), name
        assert all(f"`{what}`" in "".join(rows) for what in getattr(remedy, "RESTS_ON", ())), name
