"""Real Debian trees, judged by us and by systemd itself: `make test-images`. Root, mmdebstrap, a few minutes.

For each suite a tree is made with packages that nodes have. Four questions go to both: which state has each unit file
(`systemctl --root … list-unit-files`), what would be started at boot (`systemd --test` of that tree, in a mount
namespace of its own), what would presets start at a first boot (`systemctl --root … preset-all`), and which calendar
events can be parsed (`systemd-analyze calendar`). Then a leak is planted in every place from which systemd starts a
unit, in a copy of what says what starts, and each has to be found. Trees laid out as Ubuntu, Amazon Linux, Flatcar and
bootc lay theirs out are small, and a part of `make test`: tests/gate/test_trees.py asks the same questions there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.gate.images import ETC, LIB, judged, objections
from tests.gate.trees import PLANTS, UNIT, Tree, lay_out

from zombiescope.audit.boot import generators
from zombiescope.audit.calendar_events import NEVER, pace
from zombiescope.audit.unit_file import KINDS, TRIGGERS
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.core import Host

PACKAGES = (
    *("systemd-sysv", "openssh-server", "docker.io", "containerd", "cloud-init", "prometheus-node-exporter", "cron"),
    *("sysstat", "logrotate", "dbus", "chrony"),
)
SUITES = ("bullseye", "bookworm", "trixie", "sid")
# A mirror that lags behind has a sid whose date has passed; it is signed all the same.
OLD_IS_FINE = '--aptopt=Acquire::Check-Valid-Until "false"'
# What says what starts: enough of a tree to plant in.
SAYS = ("etc", "usr/lib/systemd", "usr/lib/udev", "usr/share/dbus-1", "var/lib/dpkg/info")
BASE = Tree({f"{LIB}/app.service": UNIT}, {f"{ETC}/multi-user.target.wants/app.service": f"/{LIB}/app.service"})
MIRROR = "http://deb.debian.org/debian"
_STARTED = re.compile(r"Action: (\S+) -> start")
# Written at boot by generators of systemd itself, from /etc/fstab and for ssh: not in the files of a tree.
GENERATED = {"systemd-remount-fs.service", "sshd-unix-local.socket"}
_RUNS = (".service", ".socket", ".timer", ".path")


def main(suites: list[str]) -> int:
    wrong = 0
    for suite in suites or SUITES:
        began = time.monotonic()
        if Path(suite).is_dir():  # a tree that exists
            wrong += compared(Path(suite)) + planted(Path(suite))
            continue
        with tempfile.TemporaryDirectory(prefix="zombiescope-images-") as folder:
            tree = Path(folder) / suite
            included = f"--include={','.join(PACKAGES)}"
            argv = ["mmdebstrap", "--quiet", "--variant=apt", OLD_IS_FINE, included, suite, str(tree), MIRROR]
            subprocess.run(argv, check=True)
            print(f"{suite}: made in {time.monotonic() - began:.0f} s")
            wrong += compared(tree) + planted(tree)
        print(f"{suite}: {time.monotonic() - began:.0f} s in all")
    return wrong


def planted(tree: Path) -> int:
    """How many leaks are missed, of one in every place from which systemd starts a unit."""
    missed = []
    for place, plant in PLANTS.items():
        with tempfile.TemporaryDirectory(prefix="zombiescope-images-") as folder:
            copied(tree, Path(folder))
            for name in (*BASE.files, *BASE.links, *plant.files, *plant.links):
                (Path(folder) / name).unlink(missing_ok=True)
            lay_out(Path(folder), BASE, plant)
            if ("error", "unit:ecs.service") not in objections(judged(Path(folder))["endless_restart"]):
                missed.append(place)
    print(f"{tree.name}: planted leaks: {len(PLANTS) - len(missed)} of {len(PLANTS)} found {missed or ''}")
    return len(missed)


def copied(tree: Path, folder: Path) -> None:
    """What says what starts. A tree of Debian 11 has its units in /lib, which is no link there."""
    merged = (tree / "lib").is_symlink()
    for part in (*SAYS, *(() if merged else ("lib/systemd", "lib/udev"))):
        if (tree / part).is_dir():
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", tree / part, folder / part], check=True)
    if merged:
        (folder / "lib").symlink_to("usr/lib")


def compared(tree: Path) -> int:
    files = UnitFiles(Host(str(tree), live=False))
    ours = {name: files.unit(name) for name in files.names("*")}
    theirs = unit_states(tree)
    differ = {name: state for name, state in theirs.items() if name not in ours or ours[name].state != state}
    print(f"{tree.name}: states of unit files: {len(theirs) - len(differ)} of {len(theirs)} as systemctl says")
    for name, state in differ.items():
        print(f"  {name}: systemctl says {state}, we {ours[name].state if name in ours else 'nothing'}")
    jobs = started(tree)
    starting = {name for name, unit in ours.items() if unit.starts and name.endswith(_RUNS)}
    jobs -= GENERATED
    missed = sorted(jobs - starting)
    found = f"{len(jobs) - len(missed)} of {len(jobs)}" if jobs else "nothing to compare with"
    print(f"{tree.name}: started at boot, of systemd's own transaction: {found}")
    for name in missed:
        print(f"  {name}: missed")
    triggered = {it for it in starting - jobs if all(by.endswith(TRIGGERS) for by in ours[it].enabled_by)}
    more = sorted(starting - jobs - triggered)
    print(f"{tree.name}: not in the transaction: {len(triggered)} triggered later, {len(more)} others {more}")
    print(f"{tree.name}: generators whose output is not known: {', '.join(generators(Host(str(tree), live=False)))}")
    texts = {text for name, unit in ours.items() for text in unit.settings.get(("Timer", "OnCalendar"), ())}
    unlike = [text for text in texts if parsed(text) != (pace(text) < NEVER)]
    print(f"{tree.name}: calendar events: {len(texts) - len(unlike)} of {len(texts)} as systemd-analyze says {unlike}")
    said, preset = first_boot(tree)
    unlike += sorted(said ^ preset)
    print(f"{tree.name}: started at a first boot: {len(said & preset)} of {len(said | preset)} as preset-all makes it")
    for name in sorted(said ^ preset):
        print(f"  {name}: {'only ours' if name in said else 'missed'}")
    return len(differ) + len(missed) + len(unlike)


def first_boot(tree: Path) -> tuple[set[str], set[str]]:
    """What we say starts when no machine-id is there, and what the links of `systemctl preset-all` start."""
    with tempfile.TemporaryDirectory(prefix="zombiescope-images-") as folder:
        copied(tree, Path(folder))
        machine = Path(folder) / "etc/machine-id"
        machine.write_text("uninitialized\n")
        said = starting_in(folder)
        argv = ["systemctl", "--root", folder, "preset-all", "--preset-mode=enable-only"]
        subprocess.run(argv, capture_output=True, check=True)
        machine.write_text("")
        return said, starting_in(folder)


def starting_in(folder: str) -> set[str]:
    files = UnitFiles(Host(folder, live=False))
    return {name for name in files.names(*(f"*{kind}" for kind in _RUNS)) if files.unit(name).starts}


def unit_states(tree: Path) -> dict[str, str]:
    argv = ["systemctl", "--root", str(tree), "list-unit-files", "--no-legend", "--no-pager", "--plain"]
    rows = [
        line.split() for line in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    ]
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[0].endswith(KINDS) and row[1] != "alias"}


def started(tree: Path) -> set[str]:
    """The jobs of the transaction that systemd of the tree makes for default.target."""
    there = "mount --make-rprivate / && mount -t proc proc $1/proc && mount -t tmpfs tmpfs $1/run && "
    there += "mount --rbind /sys $1/sys && mount --rbind /dev $1/dev && mkdir $1/run/own && chown 65534 $1/run/own && "
    there += "XDG_RUNTIME_DIR=/run/own exec timeout 60 chroot --userspec=65534:65534 $1 "
    there += "/lib/systemd/systemd --test --system --log-target=console"
    argv = ["unshare", "-m", "sh", "-c", there, "sh", str(tree)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:  # a newer systemd may not run on the kernel or with the cgroups that are here
        print(f"{tree.name}: systemd --test could not be asked: {(done.stdout + done.stderr).strip()[-200:]}")
    return {name for name in _STARTED.findall(done.stdout) if name.endswith(_RUNS)}


def parsed(text: str) -> bool:
    return subprocess.run(["systemd-analyze", "calendar", text], capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
