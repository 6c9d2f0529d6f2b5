"""Names that others chose, in commands that a person pastes: every remedy and hint, pasted into a real shell."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT, PROJECT
from tests.nodes import T0, node, read
from tests.treatment.killed_at_a_step import MACHINE
from tests.waiting import until

from zombiescope.cgroups.owners import by_path
from zombiescope.cli._plans import write_text
from zombiescope.core import Case, Finding, Host, Plan, Reading, Span
from zombiescope.core.commands import command, in_sentence, is_unit, shown_by, typed
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import HIDDEN, _plans
from zombiescope.gate._objection import systemctl
from zombiescope.kubernetes.conditions import message
from zombiescope.members.rooms import healthy
from zombiescope.outputs import html
from zombiescope.outputs._story import next_commands
from zombiescope.outputs.json import shape
from zombiescope.probes import pids_limits
from zombiescope.remedies import raise_table_limit
from zombiescope.signs import table_full

NAMES = (
    "x;id;.service",
    "$(id)",
    "$(id).service",
    "`id`",
    "`id`.scope",
    "a\nid\n.service",
    "\x1b[2Jid\r.service",
    "-rf",
    "-rf.service",
    "--now.service",
    "x|id>y&&id&.slice",
    "' ;id; '.service",
    '";id;".service',
    "x \\;id.service",
    "\udcff\u202eid.service",
    "$IFS`id`",
    "..",
    "good.service",
)
PROGRAMS = (
    *("systemctl", "journalctl", "kubectl", "docker", "podman", "tee", "kill", "touch", "install", "fsfreeze", "sh"),
    *("chrt", "zombiescope", "printf", "ln", "busctl", "ethtool", "rpm", "df", "ls", "find", "grep", "cat"),
)
FIGURES = ("cgroup_throttled_ratio", "cgroup_throttled_seconds_per_second", "thread_run_delay_ratio")


@pytest.fixture(scope="module")
def typed_in(tmp_path_factory: pytest.TempPathFactory) -> object:
    """What a shell makes of a pasted line: the argv of each program that it starts; `id` is what an attacker wants."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("id", *PROGRAMS):
        (folder / name).write_text(
            '#!/bin/sh\n{ printf "%s\\0" "${0##*/}" "$@"; printf "\\n\\0"; } >> "$SAID"\n/bin/cat >/dev/null\n'
        )
        (folder / name).chmod(0o755)

    def paste(line: str) -> list[list[str]]:
        said = folder / "said"
        said.unlink(missing_ok=True)
        env = {"PATH": str(folder), "SAID": str(said)}
        subprocess.run(
            ["/bin/bash", "--norc", "-c", f"enable -n kill\n{line}"],
            env=env,
            cwd=folder,
            timeout=20,
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        words = said.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1] if said.exists() else []
        starts: list[list[str]] = [[]]
        for word in words:
            starts = [*starts, []] if word == "\n" else [*starts[:-1], [*starts[-1], word]]
        return starts[:-1]

    return paste


def subjects(name: str) -> list[str]:
    inside = "0a1b2c3d-1111-2222-3333-444455556666"
    groups = ("", "/system.slice", "/system.slice/good.service", f"/kubepods/pod{inside}", f"/docker/{'ab' * 32}")
    return [
        *(f"cgroup:{group}/{name}" for group in groups),
        *(f"{kind}:{name}" for kind in ("unit", "nic", "disk", "user", "table", "container", "mount", "thread")),
        *(f"mount:/{name}", f"process:{name}[7]", "process:x[1]", "cpu:1", "node", "controller:memory"),
    ]


def hostile_node(name: str) -> Timeline:
    """Everything that a remedy asks a recording for, with that name in it."""
    readings = [
        read("nic_tx_timeouts_total", f"nic:{name}", 0, 0),
        read("nic_irq_cpu", "irq:41", 1, 0, f"{name}-TxRx-0"),
        read("pod_info", "pod:u", 1, 0, f"pod {name}/{name}"),
        read("container_info", "cgroup:/x", 1, 0, f"container {name}"),
        read("unit_active", "unit:kubelet.service", 1, 0),
        read("unit_needed_by", f"unit:{name}", 1, 0, name),
        read("thread_run_delay_seconds_total", f"thread:napi/{name}-1", 0, 0),
        read("cgroup_cpu_quota_cores", f"cgroup:/system.slice/{name}", 1, 0),
    ]
    for at in (0, 10):
        readings += [read("cpu_idle_seconds_total", f"cpu:{cpu}", at * 0.9, at) for cpu in (0, 1)]
        readings.append(read("nic_interrupts_total", "irq:41", 1000 * at, at))
        readings.append(read("unit_restarts_total", f"unit:{name}", at, at, "Result=exit-code, ExecMainStatus=1"))
    return node(readings)


def every_plan(name: str) -> Iterator[tuple[Case, Plan]]:
    """Of every remedy, for every sign that it cures, about every kind of subject."""
    timeline = hostile_node(name)
    signs = sorted({sign for remedy in healthy("remedies").values() for sign in remedy.CURES})
    for subject in subjects(name):
        evidence = [
            Reading(what=what, subject=f"thread:napi/{name}-1", value=0.9, at=T0, source=f"/sys/{name}")
            for what in FIGURES
        ]
        evidence.append(Reading(what="cpu_idle_cores", subject="node", value=1.8, at=T0, source="/proc/stat"))
        evidence.append(
            Reading(what="empty_scopes", subject="node", value=9, at=T0, source="$ x", text=f"{name} ok.scope")
        )
        evidence.append(Reading(what="process_cpu", subject=subject, value=1, at=T0, source="/proc/7/stat"))
        frozen = Reading(
            what="cgroup_frozen", subject=subject, value=1, at=T0, source=f"/sys/fs/cgroup/{name}/cgroup.events"
        )
        found = tuple(
            Finding(subject=subject, span=Span(T0, T0 + 10), says="seen", evidence=(frozen, *evidence), sign=sign)
            for sign in signs
        )
        case = Case(node=name, kernel="6.8.0", span=Span(T0, T0 + 10), findings=found)
        for plan in _plans(case, timeline, healthy("remedies")):
            yield case, plan


def sentences(plan: Plan) -> list[str]:
    return [step.says for step in plan.steps]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_remedy_with_a_hostile_name_is_pasted(name: str, typed_in: object) -> None:
    """A cgroup, unit, card, mount, pod, scope or process is called `x;id;.service`, and a person pastes the plan."""
    plans = list(every_plan(name))
    assert len({plan.name for _, plan in plans}) >= 10, "or hardly any remedy was asked"
    lines: dict[str, tuple[str, ...]] = {}
    for _, plan in plans:
        for step in plan.steps:
            if step.argv:
                lines[command(*step.argv, stdin=step.stdin)] = step.argv
                lines[command(*step.undo)] = step.undo
            for line in re.findall(r"`([^`]*)`", step.says):
                lines[line] = tuple(shlex.split(line.rpartition(" | ")[2]))
    lines.pop("", None)
    assert lines
    for line, argv in lines.items():
        assert line.isprintable()
        assert tuple(shlex.split(line.rpartition(" | ")[2])) == argv
        if argv[0] in PROGRAMS:  # never what has a path of its own: that would really act
            assert typed_in(line) == [list(argv)], line  # type: ignore[operator]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_advice_with_a_hostile_name_in_a_command(name: str) -> None:
    """A name stands in a sentence right after a program's name, where a reader takes both for a command."""
    program = rf"\b(?:{'|'.join(it for it in PROGRAMS if it not in ('kill', 'find', 'cat'))}|echo|sysctl|umount) "
    for _, plan in every_plan(name):
        for says in sentences(plan):
            outside = re.sub(r"`[^`]*`", "", says)
            for found in re.finditer(program, outside):
                after = outside[found.end() : found.end() + 60]
                assert "id" not in re.findall(r"\w+", after), says
            assert "\n" not in says


@pytest.mark.parametrize("name", [it for it in NAMES if not is_unit(it)], ids=ascii)
def test_a_unit_that_systemd_cannot_have(name: str) -> None:
    """A cgroup that looks like a unit has a name that systemd would refuse: no command, and the reason instead."""
    assert systemctl("disable", name).startswith("no command is given, because systemd has no unit of the name")
    for sign, remedy in (("cpu_throttling", "raise_cpu_quota"), ("table_full", "raise_table_limit")):
        for _, plan in every_plan(name):
            if plan.name == remedy and plan.cures.sign == sign:
                words = " ".join(sentences(plan))
                assert not re.search(r"set-property \S*id", words)
                if (
                    plan.cures.subject == f"cgroup:/system.slice/{name}"
                    and by_path(f"/system.slice/{name}").kind == "unit"
                ):
                    assert "no command is given, because systemd has no unit of the name" in words


def test_a_container_names_a_cgroup_of_its_own_like_a_unit() -> None:
    """What runs in a unit or a container makes `kubelet.service` below its own cgroup: the limit of the real one would
    be changed, or that one be told to leak."""
    for path in (
        "/system.slice/evil.service/kubelet.service",
        "/system.slice/evil.service/x;id;.service/kubelet.service",
    ):
        assert by_path(path).name == "evil.service"
        for _, plan in every_plan("kubelet.service"):
            if plan.cures.subject == "cgroup:/system.slice/good.service/kubelet.service":
                assert "set-property" not in " ".join(sentences(plan))
    assert by_path("/system.slice/evil.service/session-1.scope").kind == "unit"
    nested = by_path(f"/docker/{'ab' * 32}/system.slice/kubelet.service")
    assert nested.kind == "container" and not nested.unit


def test_a_name_that_a_terminal_obeys() -> None:
    """A path with an escape sequence is in a command that `fix --apply` would run: nobody could see what it is."""
    hidden = [
        plan for _, plan in every_plan("\x1b[2Jid\r.service") if plan.name == "thaw" and plan.risk == "disruptive"
    ]
    assert hidden
    for plan in hidden:
        assert plan.advice and plan.steps[0].says == HIDDEN


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_report_with_a_hostile_name_is_pasted(name: str, typed_in: object) -> None:
    """The plan as `fix`, JSON and the page print it, the next commands, a node's own name, a recording's folder."""
    lines = [
        *(it for it in (in_sentence("ls", name), command("ls", name)) if it),
        typed(f"/{name}"),
        shown_by("ls", name),
    ]
    for case, plan in list(every_plan(name))[:40:3]:
        out = io.StringIO()
        write_text([plan], [plan], MACHINE, {}, f"/tmp/{name}", out)
        assert all(line.isprintable() for line in out.getvalue().splitlines())
        lines += [line.partition("$ ")[2] for line in out.getvalue().splitlines() if line.startswith("     $ ")]
        lines += [
            line.partition("  (")[0] for line in out.getvalue().splitlines() if line.startswith("  zombiescope fix")
        ]
        case = Case(node=name, kernel="6", span=case.span, findings=(plan.cures,), plans=(plan,), recording=f"-{name}")
        lines += [it["command"] for it in shape(case)["remedies"]]
        lines += next_commands(case)
        page = io.StringIO()
        html.write(case, Timeline(), page)
        assert "\x1b" not in page.getvalue()
    lines.append(message(name, {"harm": {}, "subject": "node", "says": "x"}).partition("see: ")[2].strip())
    for line in dict.fromkeys(lines):
        words = shlex.split(line.removeprefix("$ "))
        if words and words[0] in PROGRAMS:  # never what has a path of its own: that would really act
            started = typed_in(line.removeprefix("$ "))  # type: ignore[operator]
            assert ["id"] not in [it[:1] for it in started], line


QUOTES = {"core/commands.py", "cli/_complete_bash.py", "gate/_command_line.py", "audit/facts.py"}
SHOWN = (
    *("systemctl", "journalctl", "kubectl", "docker", "podman", "umount", "fsfreeze", "chmod", "chown", "ln", "tee"),
    *("chrt", "ls", "cat", "find", "grep", "df", "ethtool", "echo", "busctl", "sysctl", "zombiescope fix"),
)
STARTS = re.compile(rf"(?:^|[ `(:$])(?:{'|'.join(SHOWN)}) (?:[\w.=/-]+ )*$")
OURS = {
    "pid",
    "parent",
    "process.pid",
    "key[0]",
    "number",
    "argv[0]",
    "current",
    "source",
}  # numbers, and names that we chose


def test_one_place_quotes() -> None:
    """A command is put together as text elsewhere, where the next hostile name is not thought of."""
    package = PROJECT / "src" / "zombiescope"
    for path in sorted(package.rglob("*.py")):
        where, text = path.relative_to(package).as_posix(), path.read_text()
        if where.startswith("lab/"):  # it types its own commands
            continue
        assert "shlex" not in text or where in QUOTES, where
        for part in ast.walk(ast.parse(text)):
            if isinstance(part, ast.JoinedStr):
                assert not list(bare_names(part)), f"{where}:{part.lineno}: {ast.unparse(part)}"


def bare_names(text: ast.JoinedStr) -> Iterator[str]:
    """What stands in a command's place without being quoted; numbers, constants and what quotes may."""
    before = ""
    for part in text.values:
        if isinstance(part, ast.Constant):
            before += str(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        name = ast.unparse(part.value)
        quoted = re.match(r"(in_sentence|command|shown_by)\(", name)
        if STARTS.search(before) and not quoted and not name.isupper() and name not in OURS:
            yield name
        before += "x"


@contextmanager
def full_cgroup(name: str) -> Iterator[str]:
    """A real cgroup of that name, in which a program wants more processes than it may have."""
    hierarchy = next(
        (it for it in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.exists(f"{it}/cgroup.procs")), ""
    )
    folder = f"{hierarchy}/{name}"
    try:
        os.mkdir(folder)
        limit = Path(folder, "pids.max")
        if not limit.exists():
            os.rmdir(folder)
            pytest.skip(f"{CANNOT}no hierarchy with a pids controller")
    except OSError as error:
        pytest.skip(f"{CANNOT}{error}")
    program = (
        "import os, sys, time\nopen(sys.argv[1] + '/cgroup.procs', 'w').write('0')\n"
        "while True:\n  try:\n    os.fork() or time.sleep(99)\n  except OSError:\n    time.sleep(0.05)\n"
    )
    limit.write_text("1")
    process = subprocess.Popen([sys.executable, "-c", program, folder])
    try:
        until(lambda: process.poll() is not None or "max 0" not in Path(folder, "pids.events").read_text())
        yield f"/{name}"
    finally:
        process.kill()
        process.wait()
        until(lambda: not Path(folder, "cgroup.procs").read_text())
        os.rmdir(folder)


@pytest.mark.beside
@pytest.mark.skipif(os.geteuid() != 0, reason=f"{CANNOT}it makes a cgroup: run the tests as root")
def test_a_real_cgroup_named_like_a_command() -> None:
    """A cgroup `zombiescope-x;id;.service` is full of processes: the probe, the sign and the remedy name it."""
    name = f"zombiescope-attack-{os.getpid()};id;.service"
    with full_cgroup(name) as path:
        readings: list[Reading] = []
        with pids_limits.watch(Host()) as look:
            for _ in range(8):
                readings += [it for it in look() if isinstance(it, Reading)]
                time.sleep(0.4)
    timeline = node(readings)
    found = [it for it in table_full.find(timeline) if isinstance(it, Finding) and it.subject == f"cgroup:{path}"]
    assert found, "the cgroup is full, and was seen to be"
    plan = raise_table_limit.plan(found[0], Case(node="n", kernel="6", span=found[0].span), timeline)
    words = " ".join(sentences(plan))
    assert "systemctl" not in words and "no command is given, because systemd has no unit of the name" in words
    assert json.dumps(words).isascii()
