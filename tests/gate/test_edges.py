"""The gate's rules at their edges: the last value that passes, the first that does not, and what is left unread."""

from __future__ import annotations

import tarfile
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from tests.gate.images import ECS, LIB, PLAIN, WANTS, clean, judged, objections
from tests.gate.test_rules import machine

from zombiescope.audit.loops import RestartPolicy, judge
from zombiescope.audit.survey import Row, Survey
from zombiescope.core import Blind, Host, Unreadable, UserError
from zombiescope.gate import _command_line, frequent_timer, growing_cgroups, looping_unit, stale_allowance
from zombiescope.gate._command_line import command_lines
from zombiescope.gate._image import Image
from zombiescope.gate._lists import Acceptance, Allowance, accept, read_allowed
from zombiescope.gate._needs import asked_probes, asked_signs
from zombiescope.gate._objection import Objection, Ruling
from zombiescope.gate._rulings import ruled, rulings, weighed
from zombiescope.gate._unpacked import root_folder
from zombiescope.members.rooms import healthy, load


def image(root: Path, **options: object) -> Image:
    return Image(Host(str(root), live=False), **options)  # type: ignore[arg-type]


def test_more_boot_entries_than_are_read_are_blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_command_line, "MOST_FILES", 2)
    entries = {f"boot/loader/entries/{name}.conf": f"options {name}\n" for name in "ab"}
    root = clean(tmp_path, {**entries, "boot/loader/entries/note.txt": "options x\n"})
    said, unseen = command_lines(Host(str(root), live=False))
    assert said["/boot/loader/entries/b.conf"] == ["b"] and unseen == []
    (root / "boot/loader/entries/c.conf").write_text("options c\n")
    said, unseen = command_lines(Host(str(root), live=False))
    assert "/boot/loader/entries/c.conf" not in said
    assert [(it.source, it.why) for it in unseen] == [("/boot/loader/entries", "more than 2 files")]


@pytest.mark.parametrize(
    ("text", "why"),
    [("kargs = []", ""), ('kargs = ["a"]', ""), ("other = 1", ""), ("kargs = [1]", "list"), ('kargs = "ab"', "list")],
)
def test_kargs_are_a_list_of_texts(tmp_path: Path, text: str, why: str) -> None:
    root = clean(tmp_path, {"usr/lib/bootc/kargs.d/a.toml": text})
    _, unseen = command_lines(Host(str(root), live=False))
    assert [why in it.why for it in unseen] == [True] * bool(why)


def test_a_file_is_read_up_to_a_megabyte_and_words_keep_their_quotes(tmp_path: Path) -> None:
    line = 'GRUB_CMDLINE_LINUX="a  b" # x\n'
    root = clean(tmp_path, {"etc/default/grub": line + "#" * ((1 << 20) - len(line))})
    assert command_lines(Host(str(root), live=False)) == ({"/etc/default/grub": ["a", "b"]}, [])
    with open(root / "etc/default/grub", "a") as file:
        file.write("#")
    said, unseen = command_lines(Host(str(root), live=False))
    assert not said and [it.source for it in unseen] == ["/etc/default/grub"]


def test_on_a_running_machine_the_line_it_was_booted_with_counts_alone(tmp_path: Path) -> None:
    root = clean(tmp_path, {"proc/cmdline": "quiet cgroup_disable=memory\n"})
    assert command_lines(Host(str(root), live=True)) == ({"/proc/cmdline": ["quiet", "cgroup_disable=memory"]}, [])
    given, _ = command_lines(Host(str(root), live=False), "")
    assert given["--cmdline"] == [] and "/proc/cmdline" not in given


@pytest.mark.parametrize(
    ("timer", "level"),
    [
        ("OnUnitActiveSec=59s", "error"),
        ("OnUnitActiveSec=60s", "note"),
        ("OnUnitActiveSec=5min", "note"),
        ("OnUnitActiveSec=301s", ""),
        ("OnUnitActiveSec=0", "error"),
        ("OnCalendar=*:*:0/0.000001", "error"),
        ("".join(f"OnCalendar=*:{minute:02}:30\n" for minute in range(0, 60, 2)), "note"),
    ],
)
def test_how_often_a_timer_may_fire(tmp_path: Path, timer: str, level: str) -> None:
    root = clean(
        tmp_path,
        {f"{LIB}/poll.timer": f"[Timer]\n{timer}\n", f"{LIB}/poll.service": PLAIN},
        {"etc/systemd/system/timers.target.wants/poll.timer": f"/{LIB}/poll.timer"},
    )
    said = [it for it in frequent_timer.look(image(root)) if isinstance(it, Objection)]
    assert [it.level for it in said] == ([level] if level else [])
    assert frequent_timer.saw(image(root)).startswith("timers that start at boot: 2, ")


def test_a_timer_with_more_events_than_are_counted_is_blind(tmp_path: Path) -> None:
    events = "".join(f"OnCalendar=*:{at % 60:02}:{at // 60:02}\n" for at in range(201))
    root = clean(
        tmp_path,
        {f"{LIB}/poll.timer": f"[Timer]\n{events}", f"{LIB}/poll.service": PLAIN},
        {"etc/systemd/system/timers.target.wants/poll.timer": f"/{LIB}/poll.timer"},
    )
    told = judged(root)
    assert told["frequent_timer"].state == "fail", "200 of them are an error by themselves"
    assert [it.why for it in told["unread_units"].unseen] == ["more than 200 calendar events"]


@pytest.mark.parametrize(("most", "state"), [(119.0, "pass"), (120.0, "fail"), (121.0, "fail")])
def test_the_limit_itself_is_too_many(most: float, state: str) -> None:
    assert machine([100.0, most, 100.0], 60, most=120)["memory_cgroups"].state == state


@pytest.mark.parametrize(("grown", "state"), [(19.0, "pass"), (20.0, "fail")])
def test_growth_begins_where_noise_ends(grown: float, state: str) -> None:
    counts = [100.0] * 40 + [100.0 + grown / 2] * 41 + [100.0 + grown] * 40
    assert machine(counts, 5)["growing_cgroups"].state == state


@pytest.mark.parametrize(("seconds", "state"), [(449, "blind"), (450, "pass")])
def test_seven_and_a_half_minutes_see_the_slowest_leak(seconds: int, state: str) -> None:
    assert machine([100.0, 100.0], seconds)["growing_cgroups"].state == state


def test_a_soak_of_one_look_is_too_short() -> None:
    told = machine([100.0], 5)["growing_cgroups"]
    assert told.state == "blind" and told.says == "100 memory cgroups in the first third of the soak, 100 in the last"
    assert "use --soak 7.5" in told.unseen[0].why and growing_cgroups.NOISE == 20.0


ROW = Row(unit="x.service", path="", enabled="enabled", policy=RestartPolicy(), judged=judge(RestartPolicy(), None))


def test_a_loop_that_one_look_sees_and_what_it_could_not_ask(tmp_path: Path) -> None:
    look = Image(Host(str(clean(tmp_path)), live=True))
    rows = (replace(ROW, restarts=1234, restarting=True), replace(ROW, unit="calm.service", restarts=1), ROW)
    look.survey = Survey(rows=rows, unseen=(Unreadable("/run/bus", "away"),))  # what systemd said
    blind, loop = looping_unit.look(look)
    assert isinstance(blind, Blind) and (blind.source, blind.why) == ("/run/bus", "away")
    assert isinstance(loop, Objection) and loop.subject == "unit:x.service" and "1,234 restarts so far" in loop.says
    assert looping_unit.saw(look) == "3 services, 2 of them restarted at least once"


@pytest.mark.parametrize(("today", "objects"), [(date(2027, 3, 31), False), (date(2027, 4, 1), True)])
def test_the_day_of_the_review_still_counts(tmp_path: Path, today: date, objects: bool) -> None:
    entry = Allowance(unit="nginx.*", owner="web@example.com", review_by=date(2027, 3, 31), where="p.toml", place=2)
    asked = image(clean(tmp_path), allowed=[entry, Allowance(unit="gone.service")], today=today)
    said = [it for it in stale_allowance.look(asked) if isinstance(it, Objection)]
    assert [it.says for it in said] == ["entry 2 was to be reviewed by 2027-03-31 (owner: web@example.com)"] * objects
    assert stale_allowance.saw(asked) == (
        "allow-list entries with a lifecycle: 1; the next review is due by 2027-03-31"
    ), "a bare pattern has none"


@pytest.mark.parametrize(
    ("level", "accepted", "unseen", "state"),
    [
        ("error", False, False, "fail"),
        ("error", False, True, "fail"),
        ("error", True, False, "pass"),
        ("error", True, True, "blind"),
        ("note", False, False, "pass"),
        ("note", False, True, "blind"),
    ],
)
def test_what_closes_the_gate(level: str, accepted: bool, unseen: bool, state: str) -> None:
    from zombiescope.gate._objection import Accepted

    why = Accepted(reason="x", expires="2027-01-01") if accepted else None
    objection = Objection(subject="unit:x", says="x", where="/x", level=level, accepted=why)
    blind = (Blind(what="x", source="/x", why="x"),) if unseen else ()
    assert weighed(Ruling(rule="x", state="pass", objections=(objection,), unseen=blind)).state == state


def test_a_rule_that_is_skipped_says_by_what(tmp_path: Path) -> None:
    said = {it.rule: (it.state, it.says) for it in rulings(image(clean(tmp_path)), ["leaking_kernel"])}
    assert said["leaking_kernel"] == ("skipped", "skipped by --skip")
    assert said["unknown_unit"][0] == "skipped" and "--allow FILE" in said["unknown_unit"][1]
    assert ruled("x", [Objection(subject="x", says="x", where="/x", level="note")], "").state == "pass"
    assert "memory_cgroups" not in said and "looping_unit" not in said, "an image does not run"


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("vmlinuz-5.4.0-aws", True),
        ("vmlinux-5.4.0", True),
        ("kernel-5.4.0", True),
        ("Image-5.4.0", True),
        ("kernel-command", False),
        ("initrd.img-5.4.0", False),
        ("vmlinuz-0-rescue-5f0c", False),
    ],
)
def test_what_is_a_kernel_in_boot(tmp_path: Path, name: str, kernel: bool) -> None:
    asked = image(clean(tmp_path, {f"boot/{name}": ""}))
    assert set(asked.kernels) == {"7.1.13-amd64"} | ({name.partition("-")[2]} if kernel else set())
    if kernel:
        assert asked.kernels[name.partition("-")[2]] == f"/boot/{name}"


@pytest.mark.parametrize("packed", [False, True])
def test_a_link_to_the_kernel_is_no_other_kernel_but_a_file_of_that_name_is(tmp_path: Path, packed: bool) -> None:
    """Ubuntu keeps /boot/vmlinuz and vmlinuz.old as links."""
    root = clean(tmp_path / "root", links={"boot/vmlinuz": "vmlinuz-7.1.13-amd64", "boot/vmlinuz.old": "vmlinuz"})
    with ExitStack() as stack:
        if packed:
            with tarfile.open(tmp_path / "root.tar", "w") as tar:
                tar.add(root, ".")
            root = Path(stack.enter_context(root_folder(str(tmp_path / "root.tar"))))
        assert list(image(root).kernels) == ["7.1.13-amd64"] and judged(root)["leaking_kernel"].state == "pass"
    if not packed:
        (root / "boot/vmlinuz").unlink()
        (root / "boot/vmlinuz").touch()
        assert [it.why for it in judged(root)["leaking_kernel"].unseen] == ["vmlinuz is not a kernel version"]


def test_a_kernel_without_a_version_is_blind_and_one_of_red_hat_a_note(tmp_path: Path) -> None:
    root = clean(tmp_path, {"boot/vmlinuz-mine": "", "boot/vmlinuz-4.18.0-553.el8.x86_64": ""})
    told = judged(root)["leaking_kernel"]
    assert [it.why for it in told.unseen] == ["mine is not a kernel version"]
    assert {level for level, _ in objections(told)} == {"note"} and told.state == "blind"


def test_an_agent_of_which_only_a_call_is_known_is_a_note_and_one_that_is_used_is_none(tmp_path: Path) -> None:
    bus = "[D-BUS Service]\nName=x\nExec=/x\nSystemdService=ecs.service\n"
    root = clean(tmp_path, {f"{LIB}/ecs.service": ECS, "usr/share/dbus-1/system-services/x.service": bus})
    told = judged(root, allowed=[])
    assert ("note", "unit:ecs.service") in objections(told["agent_without_use"])
    assert ("note", "unit:ecs.service") in objections(told["unknown_unit"])
    assert ("note", "unit:ecs.service") in objections(told["endless_restart"])
    assert all(it.says.startswith("not started at boot, but at a call") for it in told["endless_restart"].objections)
    (root / WANTS / "ecs.service").symlink_to(f"/{LIB}/ecs.service")
    assert objections(judged(root)["endless_restart"]) == [("error", "unit:ecs.service")]


@pytest.mark.parametrize(
    ("settings", "level", "limit"),
    [
        ("RestartSec=1\nStartLimitInterval=0", "error", 10),
        ("RestartSec=1.9\nStartLimitInterval=0", "error", 19),
        ("RestartSec=2\nStartLimitInterval=0", "note", 20),
        ("RestartSec=30", "note", 300),
        ("RestartSec=0\nStartLimitBurst=0", "error", 10),
    ],
)
def test_endless_restarts_and_a_limit_that_would_end_them(
    tmp_path: Path, settings: str, level: str, limit: int
) -> None:
    unit = f"[Service]\nExecStart=/x\nRestart=always\n{settings}\n"
    root = clean(tmp_path, {f"{LIB}/x.service": unit}, {f"{WANTS}/x.service": f"/{LIB}/x.service"})
    (only,) = judged(root)["endless_restart"].objections
    assert only.level == level and f"StartLimitIntervalSec={limit} " in only.fix[0]


def test_what_the_rules_need_is_what_is_read() -> None:
    signs = {name: load("signs", name) for name in asked_signs(())}
    assert sorted(signs) == ["cgroup_churn", "crash_looping_unit"]
    few = set(asked_probes(()))
    assert {"proc_cgroups", "containers"} <= few and "processes" not in few
    more = set(asked_probes((), signs))
    assert few | {"systemd_units"} <= more < set(healthy("probes"))
    alone = set(asked_probes(("looping_unit",)))
    assert "containers" not in alone and "proc_cgroups" in alone and asked_signs(("looping_unit",)) == []


def test_a_list_may_have_a_megabyte_and_no_more(tmp_path: Path) -> None:
    text = 'units = ["a.service"]\n'
    (tmp_path / "allow.toml").write_text(text + "#" * ((1 << 20) - len(text)))
    assert [it.unit for it in read_allowed(str(tmp_path / "allow.toml"))] == ["a.service"]
    with open(tmp_path / "allow.toml", "a") as file:
        file.write("#")
    with pytest.raises(UserError, match="larger than 1,048,576 bytes"):
        read_allowed(str(tmp_path / "allow.toml"))


def test_an_entry_is_idle_only_where_its_rule_was_asked_and_nothing_matched() -> None:
    def entry(rule: str, subject: str, place: int) -> Acceptance:
        return Acceptance(rule=rule, subject=subject, reason="x", expires=date(2099, 1, 1), where="b.toml", place=place)

    objection = Objection(subject="unit:a.service", says="x", where="/x", rule="endless_restart")
    found = [
        Ruling(rule="endless_restart", state="fail", objections=(objection,)),
        Ruling(rule="frequent_timer", state="skipped"),
    ]
    baseline = [
        entry("endless_restart", "unit:a.*", 1),
        entry("endless_restart", "unit:b.*", 2),
        entry("frequent_timer", "unit:c.*", 3),
    ]
    accepted, skipped, own = accept(found, baseline, date(2027, 1, 1), strict=False)
    assert accepted.state == "pass" and accepted.objections[0].accepted is not None and skipped is found[1]
    assert [it.says for it in own.objections] == ["entry 2 is not needed: no objection matches it"]
    assert own.says == "entries in the baseline: 3; used: 1"
