"""The door: what can be read, listed, counted and run through it, and that a recorded root cannot lead out."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from tests.files import write

from zombiescope.core import Host, Unreadable

MEMORY = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A recorded root with a secret beside it, and another whose name begins alike."""
    files = {"root/proc/uptime": "5.0 1.0\n", "secret": "secret", "root-too/secret": "secret"}
    return write(tmp_path, files, {"root/proc/self/ns/cgroup": "cgroup:[4026531835]"}) / "root"


def why(caught: pytest.ExceptionInfo[Unreadable]) -> tuple[str, str]:
    return caught.value.source, caught.value.why


def count_with_find(path: Path) -> int:
    found = subprocess.run(["find", str(path), "-type", "d", "-printf", "."], capture_output=True, check=True)
    return len(found.stdout)


def test_live() -> None:
    host = Host()
    assert host.live and host.root == "/"
    assert float(host.read("/proc/uptime").split()[0]) > 0
    assert host.read("proc/version") == host.read("/proc/version")
    assert host.link("/proc/self") == str(os.getpid())
    assert "stat" in host.listing("/proc")
    before = time.time()
    assert before <= host.now() <= time.time()


def test_recorded(root: Path) -> None:
    host = Host(str(root))
    assert not host.live
    assert host.read("/proc/uptime") == "5.0 1.0\n"
    assert host.link("/proc/self/ns/cgroup") == "cgroup:[4026531835]"
    assert host.listing("/proc") == ["self", "uptime"]
    assert host.folders("/") == 4


def test_a_live_root_elsewhere(root: Path) -> None:
    """A container that has the node's root mounted reads there and takes the time from the clock."""
    host = Host(str(root), live=True)
    before = time.time()
    assert before <= host.now() <= time.time()
    assert host.read("/proc/uptime") == "5.0 1.0\n"


def test_bytes_that_are_not_text_are_kept(root: Path) -> None:
    (root / "odd").write_bytes(b"a\xff\xfe\xc3\xa9")
    assert Host(str(root)).read("/odd").encode("utf-8", "surrogateescape") == b"a\xff\xfe\xc3\xa9"
    assert Host(str(root)).read_bytes("/odd") == b"a\xff\xfe\xc3\xa9"


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_file_of_any_size_is_read_whole(root: Path, size: int) -> None:
    made = random.Random(size).randbytes(size)
    (root / "file").write_bytes(made)
    assert Host(str(root)).read_bytes("/file") == made
    assert Host(str(root)).read_bytes("/file", most=max(size, 1)) == made


def test_a_file_that_is_too_large(root: Path) -> None:
    (root / "large").write_bytes(b"A" * 1001)
    with pytest.raises(Unreadable) as caught:
        Host(str(root)).read("/large", most=1000)
    assert why(caught) == ("/large", "larger than 1,000 bytes")
    with (root / "sparse").open("wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(Unreadable, match="larger than 16,777,216 bytes"):
        Host(str(root)).read("/sparse")


@pytest.mark.parametrize("live", [True, False])
def test_what_is_no_file_is_not_waited_for(root: Path, live: bool) -> None:
    os.mkfifo(root / "fifo")
    for path in ("/fifo", "/proc"):
        with pytest.raises(Unreadable) as caught:
            Host(str(root), live=live).read(path)
        assert why(caught) == (path, "not a regular file")


@pytest.mark.parametrize(
    "path", ["/../secret", "../secret", "/proc/../../secret", "//../../../etc/passwd", "/../root-too/secret"]
)
def test_dots_do_not_lead_out(root: Path, path: str) -> None:
    with pytest.raises(Unreadable, match="leads out of the recorded root") as caught:
        Host(str(root)).read(path)
    assert caught.value.source == path


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "../root-too/secret", "second", "/proc/self/mem"])
def test_links_do_not_lead_out(root: Path, target: str) -> None:
    (root / "second").symlink_to("proc/../../secret")
    (root / "link").symlink_to(target)
    host = Host(str(root))
    for act in (host.read, host.listing, host.folders):
        with pytest.raises(Unreadable, match="leads out of the recorded root"):
            act("/link")
    assert host.link("/link") == target  # what it says may be told; it is not followed


def test_a_linked_folder_does_not_lead_out(root: Path) -> None:
    (root / "out").symlink_to(root.parent)
    host = Host(str(root))
    for act in (host.read, host.listing, host.folders, host.link):
        with pytest.raises(Unreadable, match="leads out of the recorded root"):
            act("/out/secret")


@pytest.mark.parametrize("target", ["/proc/uptime", "/second/uptime", "../../../proc/uptime", "/x/../proc/./uptime"])
def test_an_absolute_link_begins_at_the_root(root: Path, target: str) -> None:
    """As for a process that is chrooted there; our own /proc/uptime says something else."""
    (root / "second").symlink_to("/proc")
    (root / "link").symlink_to(target)
    host = Host(str(root))
    assert host.read("/link") == "5.0 1.0\n"
    assert host.real("/link") == str(root / "proc/uptime")
    assert host.real("/link", follow=False) == str(root / "link")
    assert host.real("/second/self", follow=False) == str(root / "proc/self")
    with pytest.raises(Unreadable, match="no such file"):
        Host(str(root), live=True).read("/second/nothing")


def test_a_link_to_the_root_is_this_root(root: Path) -> None:
    (root / "link").symlink_to("/")
    assert Host(str(root)).listing("/link") == sorted(os.listdir(root))
    assert Host(str(root)).real("/link/link/../link") == str(root)


def test_links_within_are_followed_and_loops_end(root: Path) -> None:
    (root / "in").symlink_to("proc/uptime")
    (root / "loop").symlink_to("loop")
    assert Host(str(root)).read("/in") == "5.0 1.0\n"
    for act in (Host(str(root)).read, Host(str(root)).listing, Host(str(root)).folders):
        with pytest.raises(Unreadable):
            act("/loop")


@pytest.mark.parametrize(
    "path", ["/nothing", "/proc/uptime/x", "", "/a\0b", "/\ud800", "/" + "a" * 5000, "/" + "x/" * 3000]
)
def test_no_caller_sees_another_error(root: Path, path: str) -> None:
    for host in (Host(str(root)), Host(str(root), live=True), Host(str(root / "nowhere"))):
        for act in (host.read, host.link):
            with pytest.raises(Unreadable) as caught:
                act(path)
            assert caught.value.source == path and caught.value.why


def test_forbidden(root: Path) -> None:
    (root / "proc/uptime").chmod(0)
    if os.access(root / "proc/uptime", os.R_OK):
        pytest.skip("nothing is forbidden to root: run the tests as another user, or without CAP_DAC_OVERRIDE")
    with pytest.raises(Unreadable) as caught:
        Host(str(root)).read("/proc/uptime")
    assert why(caught) == ("/proc/uptime", "permission denied")


@pytest.mark.parametrize("seed", range(6))
def test_folders_are_those_that_find_counts(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    made = [tmp_path]
    for number in range(chance.randrange(1, 120)):
        path = chance.choice(made[-9:]) / f"folder {number}"
        path.mkdir()
        made.append(path)
        kind = chance.randrange(4)
        if kind == 0:
            (path / "file").write_text("")
        elif kind == 1:
            (path / "up").symlink_to("..")
    assert Host(str(tmp_path)).folders("/") == count_with_find(tmp_path) == len(made)
    with pytest.raises(Unreadable, match="more than"):
        Host(str(tmp_path)).folders("/", most=len(made) - 1)


@pytest.mark.skipif(not MEMORY.is_dir(), reason=f"{MEMORY} is not mounted here: needs a v1 memory hierarchy")
def test_folders_of_live_cgroups() -> None:
    pairs = [(Host().folders(str(MEMORY)), count_with_find(MEMORY)) for _ in range(20)]
    assert any(ours == theirs for ours, theirs in pairs)  # others may make cgroups between the two counts


def test_folders_of_a_file(root: Path) -> None:
    with pytest.raises(Unreadable, match="/proc/uptime: not a folder"):
        Host(str(root)).folders("/proc/uptime")


def test_run_live() -> None:
    host = Host()
    assert host.run("printf", "a b") == "a b"
    assert host.act(["printf", "done"]) == "done"
    for argv, reason in (
        (("sh", "-c", "echo first >&2; echo last >&2; exit 7"), "exit code 7: last"),
        (("false",), "exit code 1"),
        (("/no-such-command",), "no such file or directory"),
    ):
        with pytest.raises(Unreadable) as caught:
            host.run(*argv)
        assert why(caught) == ("$ " + " ".join(argv), reason)


def test_a_command_that_does_not_end() -> None:
    with pytest.raises(Unreadable, match=r"no answer in 0.05 s"):
        Host().run("sleep", "60", timeout=0.05)


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_words_that_no_command_can_take(word: str) -> None:
    with pytest.raises(Unreadable):
        Host().run("echo", word)


def test_run_recorded(root: Path) -> None:
    (root / "cmd").mkdir()
    (root / "cmd" / "cat_%etc%os-release").write_text("ID=debian\n")
    host = Host(str(root))
    assert host.run("cat", "/etc/os-release") == "ID=debian\n"
    for argv in (("uname", "-r"), ("..", "..", "secret"), ("..",), ("../../secret",)):
        with pytest.raises(Unreadable):
            host.run(*argv)
    with pytest.raises(Unreadable, match="a recorded root cannot be acted on"):
        host.act(["touch", str(root / "touched")])
    assert not (root / "touched").exists()


@pytest.mark.parametrize(("note", "at"), [("1794000000.5\n", 1_794_000_000.5), ("-3", -3.0), ("0", 0.0)])
def test_the_time_of_a_recording(root: Path, note: str, at: float) -> None:
    (root / "at").write_text(note)
    assert Host(str(root)).now() == at


@pytest.mark.parametrize("note", ["", "nan", "inf", "1e999", "yesterday", "1" * 400, "5" * 200, None])
def test_a_recording_without_its_time_is_as_old_as_its_folder(root: Path, note: str | None) -> None:
    if note is not None:
        (root / "at").write_text(note)
    os.utime(root, (1_700_000_000, 1_700_000_000))
    assert Host(str(root)).now() == 1_700_000_000
    assert Host(str(root / "nowhere")).now() == 0.0


def test_tree_names_every_folder_with_its_inode(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/d", "e"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("")
    host = Host(str(tmp_path), live=False)
    assert set(host.tree("/")) == {"/a", "/a/b", "/a/b/c", "/a/d", "/e"}
    assert host.tree("/")["/a/b"] == (tmp_path / "a" / "b").stat().st_ino
    for path, reason in (("/a/file", "not a directory"), ("/a", "more than 2 folders")):
        with pytest.raises(Unreadable) as caught:
            host.tree(path, most=2)
        assert why(caught) == (path, reason)
