"""The verb `flame`: any source in any format, stretches and filters, differences, mistakes."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from tests.conftest import COMMAND, Run

pytestmark = pytest.mark.e2e

WALK = "\tffffffff81000200 mem_cgroup_nr_lru_pages+0x1f ([kernel.kallsyms])\n\t          400100 main (/bin/kubelet)\n"
ABOUT = "capture: text of perf script: cpu-clock, 120 samples on 2 cores, over 9.9 s\n"  # said first, on stderr
LOOP = "\t          7f0001 run (libjvm.so)\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Ten seconds of a virtual machine's work on core 1; a walk on core 0 in the last two."""
    events = [f"java 8/9 [001] {100 + tenth / 10:.6f}: 1 cpu-clock: \n{LOOP}\n" for tenth in range(100)]
    events += [f"kubelet 7 [000] {108 + tenth / 10:.6f}: 1 cpu-clock: \n{WALK}\n" for tenth in range(20)]
    path = tmp_path / "capture"
    path.write_text("".join(events))
    return path


def test_folded_of_a_stretch_a_core_and_a_process(script: Path, zombiescope: Run) -> None:
    def folded(*argv: str) -> str:
        return zombiescope("flame", str(script), "--format", "folded", *argv, expect=0).stdout

    walk = "kubelet;main;mem_cgroup_nr_lru_pages_[k]"
    assert folded() == f"java;run 100\n{walk} 20\n"
    assert folded("--from", "8", "--to", "9.0") == f"java;run 10\n{walk} 10\n"
    assert folded("--cpu", "0") == folded("--comm", "kubelet") == folded("--pid", "7") == f"{walk} 20\n"
    assert folded("--from", "8", "--baseline", "0..8") == f"java;run 40 20\n{walk} 0 20\n"


def test_a_difference_is_read_back_as_one(script: Path, tmp_path: Path, zombiescope: Run) -> None:
    out = tmp_path / "difference.folded"
    zombiescope("flame", str(script), "--from", "8", "--baseline", "0..8", "-o", str(out), expect=0)
    again = zombiescope("flame", str(out), "--format", "folded", expect=0)
    assert again.stdout == out.read_text() and "of two profiles, a difference" in again.stderr
    assert "+50.00" in zombiescope("flame", str(out), expect=0).stdout
    only = zombiescope("flame", str(out), "--format", "speedscope", expect=0)
    assert "only the second profile is written" in only.stderr


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("folded", b"java;run 100\n"),
        ("json", b"{\n"),
        ("pprof", b"\x1f\x8b"),
        ("png", b"\x89PNG"),
        ("script", b"# ====="),
        ("speedscope", b'{"$schema"'),
        ("svg", b"<svg "),
        ("text", b"capture: 120 samples"),
    ],
)
def test_every_format_to_a_file_and_to_a_pipe(form: str, begins: bytes, script: Path, tmp_path: Path) -> None:
    if form == "png":
        pytest.importorskip("PIL", reason="this machine cannot: Pillow is not installed")
    out = tmp_path / "out"
    argv = [str(COMMAND), "flame", str(script), "--format", form]
    subprocess.run([*argv, "-o", str(out)], check=True)
    piped = subprocess.run(argv, check=True, capture_output=True)
    assert out.read_bytes().startswith(begins) and piped.stdout == out.read_bytes()
    assert piped.stderr.decode() == ABOUT
    assert sorted(it.name for it in tmp_path.iterdir()) == ["capture", "out"]


@pytest.mark.parametrize(
    "name", ["x.svg", "x.pb.gz", "x.speedscope.json", "x.json", "x.folded", "x.perf-script.txt", "x.txt"]
)
def test_the_name_of_the_file_says_the_format(name: str, script: Path, tmp_path: Path, zombiescope: Run) -> None:
    zombiescope("flame", str(script), "-o", str(tmp_path / name), expect=0)
    data = (tmp_path / name).read_bytes()
    assert data.startswith({"x.svg": b"<svg", "x.pb.gz": b"\x1f\x8b", "x.txt": b"capture:"}.get(name, data[:1]))


def test_the_page_of_a_stretch(script: Path, tmp_path: Path, zombiescope: Run) -> None:
    out = tmp_path / "x.html"
    done = zombiescope("flame", str(script), "--from", "8", "-o", str(out))
    if "the page is not built" in done.stderr:
        pytest.skip("this machine cannot: the page is not built (make page)")
    assert done.returncode == 0 and out.read_bytes().startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("form", ["folded", "pprof", "script"])
def test_what_was_written_can_be_opened_again(form: str, script: Path, tmp_path: Path, zombiescope: Run) -> None:
    out = tmp_path / "again"
    zombiescope("flame", str(script), "--format", form, "-o", str(out), expect=0)
    (tmp_path / "packed").write_bytes(gzip.compress(out.read_bytes()) if form != "pprof" else out.read_bytes())
    for path in (out, tmp_path / "packed"):
        told = json.loads(zombiescope("flame", str(path), "--format", "json", expect=0).stdout)
        assert {it["name"]: it["total"] for it in told["nodes"] if it["kind"] != "root"} == {
            "java": 100,
            "run": 100,
            "kubelet": 20,
            "main": 20,
            "mem_cgroup_nr_lru_pages": 20,
        }


def test_text_for_a_person(script: Path, zombiescope: Run) -> None:
    said = zombiescope("flame", str(script), expect=0).stdout
    assert "16.67%  mem_cgroup_nr_lru_pages  [kernel]" in said and "83.33%  java: run" in said
    said = zombiescope("flame", str(script), "--from", "8", "--baseline", "0..8", expect=0).stdout
    assert "50.00%   +50.00 points from   0.00%  mem_cgroup_nr_lru_pages  [kernel]" in said


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("/no/such/file",), "/no/such/file"),
        (("{script}", "--from", "5", "--to", "5"), "--from 5 is not before --to 5"),
        (("{script}", "--from", "noon"), "'noon' is not a time in this capture"),
        (("{script}", "--baseline", "5"), "'5' is not a time range"),
        (("{script}", "--baseline", "1..2", "--format", "speedscope"), "--baseline does not work with speedscope"),
        (("{script}", "-o", "/proc/no/x.svg"), "/proc/no/x.svg: cannot be written"),
        (("{script}", "-o", "x.doc"), "x.doc: unknown suffix"),
        (("{script}", "--baseline", "1..2", "-o", "x.html"), "--baseline does not work with html"),
        (("{script}", "--cpu", "one"), "'one' is not a number"),
        (("{folded}", "--from", "1"), "has no times"),
    ],
)
def test_mistakes(argv: tuple[str, ...], says: str, script: Path, tmp_path: Path, zombiescope: Run) -> None:
    (tmp_path / "folded").write_text("a;b 1\n")
    paths = {"{script}": str(script), "{folded}": str(tmp_path / "folded")}
    done = zombiescope("flame", *(paths.get(it, it) for it in argv), expect=2)
    assert says in done.stderr.splitlines()[-1] and not done.stdout


def test_no_samples_there_is_told_and_exits_3(script: Path, zombiescope: Run) -> None:
    done = zombiescope("flame", str(script), "--comm", "nobody", "--format", "folded", expect=3)
    assert (done.stdout, done.stderr) == ("", f"{ABOUT}no samples of busy cores in that range\n")


def test_damage_is_told_on_stderr_and_the_rest_is_shown(script: Path, zombiescope: Run) -> None:
    with script.open("a") as file:
        file.write("\x1b[2Jnonsense\n")
    done = zombiescope("flame", str(script), "--format", "folded", expect=0)
    assert done.stdout.startswith("java;run 100") and "nonsense" in done.stderr and "\x1b" not in done.stderr


def test_binary_is_not_for_a_terminal(script: Path) -> None:
    mine, theirs = pty.openpty()
    argv = [str(COMMAND), "flame", str(script), "--format", "pprof"]
    done = subprocess.run(argv, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    os.close(mine)
    assert done.returncode == 2 and "pprof is binary: give -o FILE" in done.stderr


def test_a_full_disk_leaves_no_half_file(script: Path) -> None:
    with open("/dev/full", "w") as full:
        argv = [str(COMMAND), "flame", str(script), "--format", "svg"]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"{ABOUT}zombiescope: cannot write the output: no space left on device\n"
