"""Every probe on a machine one of whose files is damaged: told as not seen, with the reason, and never a crash."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType

import pytest
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
Damage = Callable[[Path, str], None]


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


def content(make: Callable[[str], bytes | str]) -> Damage:
    """The file with other content; a folder or a link becomes such a file."""

    def damage(path: Path, text: str) -> None:
        made = make(text)
        path.write_bytes(made.encode("utf-8", "surrogateescape") if isinstance(made, str) else made)

    return damage


def numbers(other: str, *, in_names: bool = False) -> Damage:
    """Every number another one, also those within names (cpu0) if asked."""
    pattern = r"\d+" if in_names else r"(?<![\w.])\d[\d.]*"
    return content(lambda text: re.sub(pattern, other, text))


def names(other: str, *, keep: bool = True) -> Damage:
    """Every name with something odd after it, or in its place, but for those that say what a line is."""
    pattern = re.compile(r"\b(?!cgroup|cpu\d|CPU|nr_desc|MemTotal)[A-Za-z_]{3,}\b")
    return content(lambda text: pattern.sub(lambda name: name[0] * keep + other, text))


def root_of(path: Path) -> Path:
    return next(parent for parent in path.parents if (parent / "at").exists())


def outside(path: Path, text: str) -> None:
    """A link to a good file, or folder, that is not in the root."""
    root = root_of(path)
    target = root.parent / f"outside-{root.name}"
    if text:
        target.write_text(text)
    else:
        target.mkdir()
    path.symlink_to(target)


def large(path: Path, _text: str) -> None:
    """Twenty million letters, written once for all tests: more than any file that we read may have."""
    letters = root_of(path).parent.parent / "letters"
    if not letters.exists():
        letters.write_bytes(b"A" * 20_000_000)
    os.link(letters, path)


DAMAGES: dict[str, Damage] = {
    "missing": lambda _path, _text: None,
    "empty": content(lambda _text: ""),
    **{f"cut at {n}/7": content(lambda text, n=n: text[: len(text) * n // 7]) for n in range(1, 7)},  # type: ignore[misc]
    "random": content(lambda text: random.Random(len(text)).randbytes(4096)),
    "not UTF-8": content(lambda text: text.encode().replace(b"e", b"\xff").replace(b"1", b"\xfe")),
    "a folder": lambda path, _text: path.mkdir(),
    "a FIFO": lambda path, _text: os.mkfifo(path),
    "leads out": outside,
    "leads to itself": lambda path, _text: path.symlink_to(path),
    "20 MB": large,
    "long lines": content(lambda _text: ("A" * 1_000_000 + "\n") * 3),
    "10**400": numbers("1" + "0" * 400),
    "10**400 in names": numbers("1" + "0" * 400, in_names=True),
    "10**308": numbers("1" + "0" * 308),
    "5000 digits": numbers("9" * 5000),
    "5000 digits in names": numbers("9" * 5000, in_names=True),
    "negative": numbers("-7"),
    "nan": numbers("nan"),
    "inf": numbers("inf"),
    "ANSI": names("\x1b[31m\x1b]0;evil\x07"),
    "newlines": names("\n"),
    "form feeds": names("\x0c"),
    "digits for names": names("9" * 5000, keep=False),
    "surrogates": names("\udcff"),
}
NOT_CONTENT = ("missing", "empty", "a folder", "a FIFO", "leads out", "leads to itself")  # for a folder or a link
ALL_UNSEEN = (*NOT_CONTENT, "20 MB", "long lines", "random")


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


def damaged(folder: Path, sound: dict[int, Sound], file: str, damage: Damage) -> tuple[Timeline, Case]:
    """Two looks of all probes at a machine one of whose files is damaged, and what comes of it."""
    readers = READERS.get(file, [])
    needed = ("at", *(asked for name in readers for asked in ASKED[name]))
    tape = Tape()
    for later in LOOKS:
        files = good(later)
        root = folder / str(later)
        hurt_host = machine(root, {name: text for name, text in files.items() if name.startswith(needed)})
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
    timeline, case = damaged(tmp_path, sound, "elsewhere", DAMAGES["empty"])
    assert TEXTS - {"at"} <= set(FILES)
    for name, probe in PROBES.items():
        if set(ASKED[name]) & set(good()) and not hasattr(probe, "watch"):  # that needs a live machine
            assert any(timeline.looked(what, len(LOOKS)) for what in probe.GIVES), name
    assert [verdict.state for verdict in case.verdicts if verdict.sign == "saturated_core"] == ["clear"]
    check_case(case, timeline)


@pytest.mark.parametrize(
    ("file", "kind"), [(file, kind) for file in FILES for kind in DAMAGES if file in TEXTS or kind in NOT_CONTENT]
)
def test_damage(file: str, kind: str, tmp_path: Path, sound: dict[int, Sound]) -> None:
    timeline, case = damaged(tmp_path, sound, file, DAMAGES[kind])
    check_case(case, timeline)
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

    timeline, case = damaged(tmp_path, sound, file, forbid)
    check_case(case, timeline)
    for name in READERS[file]:
        check_looks(PROBES[name], timeline)
