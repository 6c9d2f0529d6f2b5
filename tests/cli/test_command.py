"""The command as a user meets it: help, mistakes, formats, exit codes, pipes, full disks, hostile recordings."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.conftest import COMMAND, Run
from tests.nodes import QUIET

from zombiescope import __version__
from zombiescope.members.rooms import names

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("verb", names("cli"))
def test_every_verb_has_help_with_examples(verb: str, zombiescope: Run) -> None:
    assert f"examples:\n  zombiescope {verb}" in zombiescope(verb, "--help", expect=0).stdout


def test_version(zombiescope: Run) -> None:
    assert zombiescope("--version", expect=0).stdout == f"zombiescope {__version__}\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("dignose",), "invalid choice"),
        (("diagnose", "/nowhere"), "/nowhere: no such recording"),
        (("diagnose", "/etc"), "not a recording"),
        (("diagnose", "--seconds", "-1"), "not a number of seconds"),
        (("diagnose", "--seconds", "nan"), "not a number of seconds"),
        (("diagnose", "--set", "nobody.FULL=1"), "no sign, probe or law is called 'nobody'"),
        (("census", "--controller", "memry"), "'memry': no such controller"),
        (("explain", "zombie_cgroup"), "did you mean zombie_cgroups"),
        (("explain", "zombie_cgroups", "--format", "dot"), "--format dot needs --map"),
    ],
)
def test_a_mistake_is_told_in_one_line_and_exits_2(argv: tuple[str, ...], says: str, zombiescope: Run) -> None:
    done = zombiescope(*argv, expect=2)
    assert says in done.stderr.splitlines()[-1] and not done.stdout


def test_a_recording_gives_the_same_bytes_each_time_and_tells_what_it_could_not_see(zombiescope: Run) -> None:
    first, again = (zombiescope("diagnose", str(QUIET), "--format", "json", expect=3).stdout for _ in range(2))
    assert first == again
    shape = json.loads(first)
    assert (shape["node"], shape["span"]["start"]) == ("node-a", 1_794_000_000.0)
    states = {it["sign"]: it["state"] for it in shape["verdicts"]}
    assert (states["zombie_cgroups"], states["saturated_core"]) == ("clear", "blind")


def test_census_of_a_recording(zombiescope: Run) -> None:
    shape = json.loads(zombiescope("census", "--root", str(QUIET), "--format", "json", expect=0).stdout)
    assert shape["hierarchy"] == "hybrid"
    assert shape["controllers"]["memory"] == {"known": 9, "live": 4, "dying": 5}
    assert 0 < shape["bytes_held"] < 1e6
    rows = zombiescope("census", "--root", str(QUIET), "--format", "tsv", expect=0).stdout.splitlines()
    assert rows[0] == "controller\tknown\tlive\tdying" and "memory\t9\t4\t5" in rows


@pytest.mark.parametrize(("style", "codes"), [("ci", (0, 3)), ("npd", (0, 2)), ("nagios", (0, 3))])
def test_exit_styles(style: str, codes: tuple[int, int], zombiescope: Run, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert zombiescope("census", "--root", str(QUIET), "--exit-style", style).returncode == codes[0]
    assert zombiescope("census", "--root", str(tmp_path), "--exit-style", style).returncode == codes[1]
    assert zombiescope("diagnose", str(tmp_path), "--exit-style", style).returncode == codes[1]


def test_this_machine_can_be_diagnosed(zombiescope: Run) -> None:
    done = zombiescope("diagnose", "--seconds", "1")
    assert done.returncode in (0, 1, 3) and done.stdout.startswith(f"zombiescope {__version__} · ")
    assert not done.stderr, "no progress line where nobody watches"
    assert "\x1b" not in done.stdout, "no colour where nobody watches"


def test_explain_maps_every_sign(zombiescope: Run) -> None:
    assert {*names("signs")} <= set(zombiescope("explain", "--map", expect=0).stdout.split())
    assert json.loads(zombiescope("explain", "--map", "--format", "json", expect=0).stdout)["signs"] == names("signs")
    everything = zombiescope("explain", expect=0).stdout.splitlines()
    assert {line.split("\t")[1] for line in everything} >= {*names("signs"), *names("probes"), *names("laws")}


def test_a_full_disk_and_a_closed_pipe_are_no_tracebacks() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "census"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "zombiescope: cannot write the output: no space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([COMMAND, "explain"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.stderr == ""


def test_an_ascii_terminal_can_be_written_to(zombiescope: Run) -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    assert zombiescope("diagnose", str(QUIET), env=env, expect=3).stdout


def test_on_a_terminal_there_is_progress_and_ctrl_c_keeps_what_was_seen() -> None:
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "diagnose", "--seconds", "60", "--format", "json"], stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    said = ""
    while "looking: 1" not in said:
        said += os.read(mine, 4096).decode()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    os.close(mine)
    shape = json.loads(out)
    assert 1 <= shape["span"]["end"] - shape["span"]["start"] < 30
    assert "of 60 s (Ctrl-C ends it early)" in said


def test_a_hostile_recording_is_blind_never_a_traceback(zombiescope: Run, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(QUIET, root)
    (root / "proc/stat").write_bytes(os.urandom(5000))
    (root / "proc/cgroups").write_text("\x1b[2Jmemory\nno\tsuch\tthing")
    (root / "proc/meminfo").write_text("")
    (root / "proc/vmstat").unlink()
    os.mkfifo(root / "proc/vmstat")
    (root / "proc/loadavg").unlink()
    (root / "proc/loadavg").symlink_to("/etc/passwd")
    (root / "proc/sys/kernel/hostname").write_bytes(b"evil\x1b[31m\xff\n")
    for form in names("outputs"):
        done = zombiescope("diagnose", str(root), "--format", form, expect=3)
        assert "\x1b" not in done.stdout
    shape = json.loads(zombiescope("diagnose", str(root), "--format", "json").stdout)
    said = {it["sign"]: it for it in shape["verdicts"]}
    assert said["saturated_core"]["state"] == "blind" and said["saturated_core"]["says"].startswith(
        "/proc/stat: line 1 is not"
    )
    assert shape["node"] == "evil\\x1b[31m\\xff"


@pytest.mark.parametrize("lines", ["0", "1"])
def test_a_reader_that_leaves_early_does_not_change_the_verdict(tmp_path: Path, lines: str) -> None:
    """A log with many resets: the report is longer than a pipe holds, and its exit code is 1."""
    log = tmp_path / "dmesg.txt"
    reset = "[{at}.000000] ena 0000:00:05.0 eth{nic}: Resetting the device\n"
    log.write_text("".join(reset.format(at=1000 + 20 * nic, nic=nic) for nic in range(900)))
    for redirected in ("2>/dev/null", "2>&1"):
        command = f"{COMMAND} diagnose -v {log} {redirected} | head -n {lines} >/dev/null; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert done.stdout == "141\n" and not done.stderr
    whole = subprocess.run([COMMAND, "diagnose", log], capture_output=True, check=False)
    assert whole.returncode == 1
