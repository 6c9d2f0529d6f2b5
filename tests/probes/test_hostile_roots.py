"""Every probe on a machine some of whose files are damaged: said to be not seen, with the reason, and never a crash."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType

import pytest
from tests.probes.damages import ALL_UNSEEN, DAMAGES, NOT_CONTENT, Damage
from tests.probes.machine import good, machine

from zombiescope.core import Blind, Case, Host, Reading, Unparsable, Unreadable
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape

PROBES = healthy("probes")
OUTPUTS = [(name, output) for name, output in healthy("outputs").items() if name in ("text", "json", "dot")]
LOOKS = (0, 10)  # seconds: counters need two
PATIENCE = 20  # seconds for one damaged machine, a thousand times what it takes


class Hung(BaseException):
    """Not an Exception, so that no guard of ours can swallow it."""


@pytest.fixture(autouse=True)
def _alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Hung

    monkeypatch.delenv("ZOMBIESCOPE_DEBUG", raising=False)
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Watched(Host):
    """A door that notes what it was asked for."""

    def __init__(self, root: str) -> None:
        super().__init__(root, live=False)
        self.asked: set[str] = set()

    def read_bytes(self, path: str, **limits: int) -> bytes:
        self.asked.add(path.lstrip("/"))
        return super().read_bytes(path, **limits)

    def folders(self, path: str, **limits: int) -> int:
        self.asked.add(path.lstrip("/"))
        return super().folders(path, **limits)

    def link(self, path: str) -> str:
        self.asked.add(path.lstrip("/"))
        return super().link(path)


def _asked() -> dict[str, list[str]]:
    asked = {}
    with tempfile.TemporaryDirectory() as root:
        machine(Path(root), good())
        for name, probe in PROBES.items():
            host = Watched(root)
            look(host, name, probe, Tape())
            asked[name] = sorted(host.asked - {"at"})
    return asked


ASKED = _asked()
FILES = sorted({file for files in ASKED.values() for file in files})
READERS = {file: [name for name, files in ASKED.items() if file in files] for file in FILES}
TEXTS = {name for name in good() if not name.endswith("/") and "/ns/" not in name}
TOGETHER = 6  # files damaged at once, of which no probe reads two: each look and each verdict is still that of one


def _unrelated(files: Iterable[str]) -> list[tuple[str, ...]]:
    """The files in groups. No two of a group have a reader in common, and none lies within another."""
    groups: list[list[str]] = []
    for file in files:
        for group in groups:
            if len(group) < TOGETHER and not any(_related(file, it) for it in group):
                group.append(file)
                break
        else:
            groups.append([file])
    return [tuple(it) for it in groups]


def _related(one: str, other: str) -> bool:
    within = os.path.commonpath([one, other]) in (one, other)
    return within or not set(READERS[one]).isdisjoint(READERS[other])


class Sound:
    """The good machine at one of the looks, for the probes that do not read what is damaged: each reads it once."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.known: dict[str, list[Reading | Blind] | Unreadable | Unparsable] = {}

    def read(self, name: str) -> list[Reading | Blind]:
        if name not in self.known:
            try:
                self.known[name] = list(PROBES[name].read(self.host))
            except (Unreadable, Unparsable) as error:
                self.known[name] = error
        found = self.known[name]
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Sound]:
    folder = tmp_path_factory.mktemp("healthy")
    return {later: Sound(machine(folder / str(later), good(later))) for later in LOOKS}


def damaged(folder: Path, sound: dict[int, Sound], hit: Iterable[str], damage: Damage) -> tuple[Timeline, Case]:
    """Two looks of all probes at a machine some of whose files are damaged, and what comes of it."""
    readers = [name for file in hit for name in READERS.get(file, [])]
    needed = ("at", *(asked for name in readers for asked in ASKED[name]))
    tape = Tape()
    for later in LOOKS:
        files = good(later)
        root = folder / str(later)
        hurt_host = machine(root, {name: text for name, text in files.items() if name.startswith(needed)})
        for file in hit:
            hurt(root / file, damage, files.get(file, ""))
        for name, probe in PROBES.items():
            if name in readers:
                look(hurt_host, name, probe, tape)
            else:
                look(sound[later].host, name, probe, tape, partial(sound[later].read, name))
    timeline = tape.timeline()
    return timeline, examine(timeline, node="node-7", kernel="6.1.0")


def hurt(path: Path, damage: Damage, text: str) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    damage(path, text)


def check_looks(probe: ModuleType, timeline: Timeline) -> None:
    """Either readings came, or every look says why not and where."""
    for what in probe.GIVES:
        looks = timeline.looks(what)
        assert len(looks) == len(LOOKS), what
        for reading in (looks.reading(place) for place in range(len(looks))):
            if not reading.value:
                assert "/" in reading.source and reading.text, (what, reading)
            assert "broken" not in reading.text, (what, reading)
    seen = [what for what in probe.GIVES if timeline.looked(what)]
    assert not seen or any(timeline.subjects(what) for what in seen), f"said to be seen, but nothing was: {seen}"


def refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def check_case(case: Case, timeline: Timeline) -> None:
    for verdict in case.verdicts:
        assert verdict.state != "broken", verdict
    for name, output in OUTPUTS:
        out = io.StringIO()
        output.write(case, timeline, out)
        shown = out.getvalue()
        assert shown.replace("\n", "").isprintable(), name
        if name == "json":
            assert json.loads(shown, parse_constant=refuse)["node"] == "node-7"


def test_the_good_machine_is_seen_by_every_probe_that_reads_it(tmp_path: Path, sound: dict[int, Sound]) -> None:
    timeline, case = damaged(tmp_path, sound, ["elsewhere"], DAMAGES["empty"])
    assert TEXTS - {"at"} <= set(FILES)
    for name, probe in PROBES.items():
        if set(ASKED[name]) & set(good()) and not hasattr(probe, "watch"):  # that needs a live machine
            assert any(timeline.looked(what, len(LOOKS)) for what in probe.GIVES), name
    assert [verdict.state for verdict in case.verdicts if verdict.sign == "saturated_core"] == ["clear"]
    check_case(case, timeline)


GROUPS = {kind: _unrelated(it for it in FILES if it in TEXTS or kind in NOT_CONTENT) for kind in DAMAGES}


@pytest.mark.parametrize(("files", "kind"), [(files, kind) for kind, groups in GROUPS.items() for files in groups])
def test_damage(files: tuple[str, ...], kind: str, tmp_path: Path, sound: dict[int, Sound]) -> None:
    timeline, case = damaged(tmp_path, sound, files, DAMAGES[kind])
    check_case(case, timeline)
    for file in files:
        for name in READERS[file]:
            check_looks(PROBES[name], timeline)
            if kind in ALL_UNSEEN and ASKED[name] == [file]:
                assert not [what for what in PROBES[name].GIVES if timeline.looked(what)], name


def test_a_count_that_was_cut_off_is_blind_and_not_clear(tmp_path: Path) -> None:
    """A node of v2 alone, whose kernel has no row for memory in /proc/cgroups."""
    host = machine(
        tmp_path,
        good()
        | {
            "proc/self/mountinfo": "24 23 0:22 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n",
            "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nfreezer\t0\t61\t1\n",
            "sys/fs/cgroup/cgroup.stat": "nr_descendants 41\n",
        },
    )
    tape = Tape()
    for name, probe in PROBES.items():
        look(host, name, probe, tape)
    states = {verdict.sign: verdict.state for verdict in examine(tape.timeline()).verdicts}
    assert states["zombie_cgroups"] == "blind"


@pytest.mark.parametrize("file", FILES)
def test_forbidden(file: str, tmp_path: Path, sound: dict[int, Sound]) -> None:
    def forbid(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("nothing is forbidden to root: run the tests as another user, or without CAP_DAC_OVERRIDE")

    timeline, case = damaged(tmp_path, sound, [file], forbid)
    check_case(case, timeline)
    for name in READERS[file]:
        check_looks(PROBES[name], timeline)
