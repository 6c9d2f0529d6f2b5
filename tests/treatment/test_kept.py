"""Files are put back as they were, whatever became of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files import write

from zombiescope.core import Host, Unreadable
from zombiescope.treatment.kept import changed, kept, link_farm, restoring, unit_files

NAMES = ("a", "b", "c d", "-x")
things = st.one_of(
    st.just(None),
    st.tuples(st.just("file"), st.binary(max_size=20), st.sampled_from([0o644, 0o600, 0o755])),
    st.tuples(st.just("link"), st.sampled_from(["/dev/null", "../b", "nowhere"])),
    st.tuples(st.just("folder"), st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=5), max_size=2)),
)
trees = st.fixed_dictionaries(dict.fromkeys(NAMES, things))


def make(folder: Path, tree: dict[str, tuple[object, ...] | None]) -> None:
    for name, thing in tree.items():
        path = folder / name
        match thing:
            case ("file", bytes(content), int(mode)):
                path.write_bytes(content)
                path.chmod(mode)
            case ("link", str(target)):
                path.symlink_to(target)
            case ("folder", dict(inside)):
                path.mkdir()
                for child, content in inside.items():
                    (path / child).write_bytes(content)


def clear(folder: Path) -> None:
    subprocess.run(["find", str(folder), "-mindepth", "1", "-delete"], check=True)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=trees, after=trees)
def test_whatever_was_changed_is_as_before(before: dict[str, object], after: dict[str, object], tmp_path: Path) -> None:
    host, paths = Host(), [str(tmp_path / name) for name in NAMES]
    clear(tmp_path)
    make(tmp_path, before)  # type: ignore[arg-type]
    was = kept(host, paths)
    clear(tmp_path)
    make(tmp_path, after)  # type: ignore[arg-type]
    for argv, stdin in restoring(was, kept(host, paths)):
        subprocess.run(argv, input=stdin, check=True, stdout=subprocess.DEVNULL)
    assert changed(was, kept(host, paths)) == []
    assert restoring(was, kept(host, paths)) == []


def test_a_unit_is_kept_with_its_mask_drop_ins_wants_and_aliases(tmp_path: Path) -> None:
    links = {
        "alias.service": "/lib/systemd/system/ecs.service",
        "other.service": "/dev/null",
        "multi-user.target.wants/helper.socket": "/lib/systemd/system/helper.socket",
    }
    files = {"multi-user.target.wants/README": "not a link", "own.service": "[Unit]\n"}
    top = write(tmp_path / "etc/systemd/system", files, links)
    os.mkfifo(top / "pipe.service")
    os.truncate((top / "multi-user.target.wants/README"), 100 << 20)
    paths = unit_files("ecs.service")
    assert "/etc/systemd/system/ecs.service" in paths and "/etc/systemd/system/ecs.service.d" in paths
    farm = link_farm(Host(str(tmp_path), live=False))
    names = {path.removeprefix("/etc/systemd/system/"): state["kind"] for path, state in farm.items()}
    assert names == {
        "alias.service": "link",
        "other.service": "link",
        "multi-user.target.wants": "folder",
        "multi-user.target.wants/helper.socket": "link",
    }


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc/passwd", "a/b.service", "a\nb.service", "%i.service", "x" * 256, "é.service"]
)
def test_what_is_no_name_of_a_unit_leads_nowhere(name: str) -> None:
    with pytest.raises(Unreadable):
        unit_files(name)


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreadable, match="left alone"):
        kept(Host(), [str(tmp_path / "pipe")])


def test_a_setting_of_the_kernel_is_written_to_not_replaced() -> None:
    path = "/proc/self/oom_score_adj"
    was = kept(Host(), [path])
    assert was[path]["kind"] == "setting"
    changed_since = {path: {**was[path], "content": "MQ=="}}
    assert restoring(was, changed_since)[0][0] == ("tee", path)


def test_of_folders_only_those_of_dependencies_are_looked_into(tmp_path: Path) -> None:
    top = tmp_path / "etc/systemd/system"
    for folder in ("x.service.d", "x.target.requires"):
        (top / folder).mkdir(parents=True)
        (top / folder / "link.service").symlink_to("/lib/systemd/system/link.service")
    (top / "file.wants").write_text("no folder")
    assert set(link_farm(Host(str(tmp_path), live=False))) == {
        "/etc/systemd/system/x.target.requires",
        "/etc/systemd/system/x.target.requires/link.service",
    }


def test_more_links_than_a_node_has_and_larger_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "etc/systemd/system/a.target.wants"
    folder.mkdir(parents=True)
    for name in "bc":
        (folder / f"{name}.service").symlink_to("/dev/null")
    host = Host(str(tmp_path), live=False)
    monkeypatch.setattr("zombiescope.treatment.kept.MOST_LINKS", 3)
    assert len(link_farm(host)) == 3, "two links and their folder"
    monkeypatch.setattr("zombiescope.treatment.kept.MOST_LINKS", 2)
    with pytest.raises(Unreadable, match="more than 2 links"):
        link_farm(host)
    (tmp_path / "large").write_bytes(bytes(1 << 20))
    assert kept(host, ["/large"])["/large"]["kind"] == "file"
    with open(tmp_path / "large", "ab") as file:
        file.write(b"x")
    with pytest.raises(Unreadable):
        kept(host, ["/large"])


def test_a_unit_without_a_name_is_said_to_have_none() -> None:
    with pytest.raises(Unreadable, match=r"\(no unit\)"):
        unit_files("")
    with pytest.raises(Unreadable, match="a b"):
        unit_files("a b")


def test_a_folder_that_a_fix_made_is_emptied_first_and_goes_with_its_parents(tmp_path: Path) -> None:
    top = tmp_path / "a"
    was = kept(Host(), [str(top)])
    (top / "b/c").mkdir(parents=True)
    (top / "b/c/file").write_text("x")
    for argv, stdin in restoring(was, kept(Host(), [str(top)])):
        subprocess.run(argv, input=stdin, check=True)
    assert not top.exists()
    top.mkdir()
    (top / "theirs").write_text("put there since")
    for argv, stdin in restoring(was, {str(top): kept(Host(), [str(top)])[str(top)]}):
        subprocess.run(argv, input=stdin, check=True)
    assert (top / "theirs").read_text() == "put there since"


def test_a_folder_that_is_gone_is_made_again_with_its_mode_and_what_was_in_it(tmp_path: Path) -> None:
    top = tmp_path / "a.service.d"
    top.mkdir(mode=0o750)
    (top / "x.conf").write_text("x")
    was = kept(Host(), [str(top)])
    (top / "x.conf").unlink()
    top.rmdir()
    for argv, stdin in restoring(was, kept(Host(), [str(top)])):
        subprocess.run(argv, input=stdin, check=True)
    assert top.stat().st_mode & 0o777 == 0o750 and (top / "x.conf").read_text() == "x"
