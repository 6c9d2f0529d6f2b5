"""A frozen file system of a container's mount namespace, and a command that is run in the node's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.nodes import node
from tests.remedies.planned import plan_for
from tests.waiting import until

from zombiescope.core import Finding, Host, Plan, Reading, Unreadable, UserError
from zombiescope.lab._file_systems import frozen, thawed
from zombiescope.lab._loop_disk import loop_disk
from zombiescope.probes._blocked_on import FROZEN
from zombiescope.probes._process_stat import Process
from zombiescope.probes._process_waits import Blockade
from zombiescope.signs import frozen_filesystem
from zombiescope.treatment.thaw_command import thaw

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.geteuid() != 0, reason=f"{CANNOT}it mounts and freezes: run the tests as root"),
]
# In a mount namespace of its own, as a container: the disk stands where the node has a folder of another one.
WRITER = """
import os, sys, time
disk, place = sys.argv[1:]
assert os.system(f"mount --bind {disk} {place}") == 0
print("ready", flush=True)
log = os.open(f"{place}/log", os.O_WRONLY | os.O_CREAT)
while True:
    os.pwrite(log, b"x", 0)
    time.sleep(0.01)
"""


@contextmanager
def container(disk: str, place: str) -> Iterator[int]:
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", WRITER, disk, place]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def planned(pid: int) -> Plan:
    """What is planned for the writer, once it hangs: by the probe, the sign and the remedy, 15 s later."""
    until(lambda: Path(f"/proc/{pid}/wchan").read_text() in FROZEN)
    process = Process(pid=pid, name="writer", state="D", user=0.0, system=0.0, born=1)
    blockade, seen = Blockade(), {(pid, 1): process}
    told = [*blockade.told(Host(), 1000.0, seen), *blockade.told(Host(), 1015.0, seen)]
    timeline = node([it for it in told if isinstance(it, Reading)])
    (found,) = [it for it in frozen_filesystem.find(timeline) if isinstance(it, Finding)]
    plan = plan_for(found, "thaw_filesystem", timeline)
    assert plan is not None
    return plan


@pytest.fixture
def disk() -> Iterator[str]:
    with ExitStack() as undo:
        try:
            _, folder = undo.enter_context(loop_disk("elsewhere", 32 << 20))
        except UserError as error:
            pytest.skip(CANNOT + str(error))
        yield folder


def device(folder: str) -> str:
    number = os.stat(folder).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_a_writer_s_path_is_another_file_system_of_the_node(disk: str, tmp_path: Path) -> None:
    """A container writes to its /data, which is frozen; the node's /data, perhaps frozen for a backup, was thawed."""
    with container(disk, str(tmp_path)) as pid, frozen(disk):
        plan = planned(pid)
        (argv,) = [it.argv for it in plan.steps if it.argv]
        assert argv[-2:] == (device(disk), disk), "where the node has it, not where the container has it"
        assert str(tmp_path) in plan.steps[0].says, "the person knows it by the container's name"
        assert "thawed" in Host().act(argv)
        until(lambda: Path(f"/proc/{pid}/wchan").read_text() not in FROZEN)


def test_a_writer_s_file_system_is_not_mounted_on_the_node(disk: str, tmp_path: Path) -> None:
    """Nothing on the node is the frozen device: no command, and the reason."""
    number = device(disk)
    with container(disk, str(tmp_path)) as pid:
        inside = f"/proc/{pid}/root{tmp_path}"
        subprocess.run(["umount", "--lazy", disk], check=True)
        try:
            with frozen(inside):
                plan = planned(pid)
            assert plan.advice and f"the node itself has not mounted device {number}" in plan.steps[0].says
        finally:
            subprocess.run(["mount", "-t", "tmpfs", "zslab-over", disk], check=True)  # for who unmounts the disk


def test_the_mount_is_another_one_by_now(disk: str, tmp_path: Path) -> None:
    """Between the look and the fix something else is mounted there, or a link leads elsewhere: it is left alone."""
    number = device(disk)
    with frozen(disk):
        subprocess.run(["mount", "-t", "tmpfs", "zslab-over", disk], check=True)
        try:
            with pytest.raises(Unreadable, match=f"is mounted there, not {number}: left alone"):
                thaw(number, disk)
        finally:
            subprocess.run(["umount", disk], check=True)
        link = tmp_path / "link"
        link.symlink_to("/")
        with pytest.raises(Unreadable, match="left alone"):
            thaw(number, str(link))
        with pytest.raises(OSError, match="Not a directory"):
            thaw(number, "/dev/null")
        thaw(number, disk)
        assert not thawed(disk), "it is thawed already"
