"""The package as a stranger gets it: built, installed where nothing else is, and used from an empty folder."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.conftest import CANNOT, PROJECT

from zombiescope import __version__
from zombiescope.members.rooms import names

pytestmark = pytest.mark.e2e
PAGE = PROJECT / "src/zombiescope/web/static/page.js"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes, with the command it uses: the wheel is built from the unpacked sdist."""
    folder = tmp_path_factory.mktemp("dist")
    clean(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(PROJECT))
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it declares, no extra; this one's packages are not seen there."""
    folder = tmp_path_factory.mktemp("venv")
    clean(sys.executable, "-m", "venv", "--without-pip", str(folder))
    (wheel,) = built.glob("*.whl")
    quiet = ("--quiet", "--disable-pip-version-check", "--no-compile")
    clean(sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", *quiet, str(wheel))
    return folder


def clean(*argv: str, cwd: Path | None = None, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    """Run without what would lead back to this source."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ZOMBIESCOPE"))}
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in codes, done.stdout + done.stderr
    return done


def test_everything_is_in_the_archives(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = {path.relative_to(PROJECT / "src").as_posix() for path in PROJECT.glob("src/zombiescope/**/*")}
    meant = {it for it in source if (PROJECT / "src" / it).is_file() and "__pycache__" not in it}
    assert meant <= inside
    share = f"zombiescope-{__version__}.data/data/share"
    for verb in names("cli"):
        assert f"{share}/man/man1/zombiescope-{verb}.1" in inside
    assert f"{share}/man/man1/zombiescope.1" in inside
    for page in ("README.md", "exports.md", "signs/zombie_cgroups.md", "report.svg"):
        assert f"{share}/doc/zombiescope/{page}" in inside
    assert f"{share}/bash-completion/completions/zombiescope" in inside
    assert f"{share}/zsh/site-functions/_zombiescope" in inside
    assert f"{share}/fish/vendor_completions.d/zombiescope.fish" in inside
    with tarfile.open(sdist) as archive:
        assert {f"zombiescope-{__version__}/src/{it}" for it in meant} <= set(archive.getnames())


def test_the_installed_command_works_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "bin/zombiescope")
    assert clean(command, "--version", cwd=tmp_path).stdout == f"zombiescope {__version__}\n"
    report = clean(command, "diagnose", "--seconds", "1", cwd=tmp_path, codes=(0, 1, 3)).stdout
    assert report.startswith(f"zombiescope {__version__} · ")
    verbs = clean(command, "completion", "bash", cwd=tmp_path).stdout
    assert verbs == (installed / "share/bash-completion/completions/zombiescope").read_text()
    for room in ("signs", "remedies", "lab", "cli"):
        assert all(name in verbs for name in names(room))
    assert clean(command, "explain", "zombie_cgroups", cwd=tmp_path).stdout
    assert not list(tmp_path.iterdir()), "nothing is written that was not asked for"


def test_the_installed_command_shows_a_recording(installed: Path, tmp_path: Path) -> None:
    command = str(installed / "bin/zombiescope")
    if not PAGE.exists():
        pytest.skip(f"{CANNOT}the page is not built: it needs Node")
    clean(command, "record", "rec", "--for", "2s", cwd=tmp_path)
    clean(command, "view", "rec", "-o", "rec.html", cwd=tmp_path)
    assert PAGE.read_text() in (tmp_path / "rec.html").read_text()
    for argv in (("view", "rec"), ("flame", "rec", "-o", "rec.png")):
        refused = clean(command, *argv, cwd=tmp_path, codes=(2,)).stderr.splitlines()
        assert "pipx install --force 'zombiescope[web]'" in refused[-1]
    assert sorted(it.name for it in tmp_path.iterdir()) == ["rec", "rec.html"]


def test_the_readme_s_commands_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    """As they stand; of those that need the extra, the refusal names the README's own way to install it."""
    readme = (PROJECT / "README.md").read_text()
    command = str(installed / "bin/zombiescope")
    shown = re.findall(r"^    zombiescope (.*?) *(?:#.*)?$", readme, re.MULTILINE)
    assert shown == ["diagnose --sample", "diagnose", "view --sample --open"]
    report = clean(command, *shown[0].split(), cwd=tmp_path, codes=(1,)).stdout
    assert "PROBLEM" in report and "zombiescope fix --sample" in report
    next_command = re.findall(r"^  next   zombiescope (\S+ \S+)", report, re.MULTILINE)[0]
    assert "stop_leaking_unit" in clean(command, *next_command.split(), cwd=tmp_path, codes=(1,)).stdout
    clean(command, *shown[1].split(), "--seconds", "1", cwd=tmp_path, codes=(0, 1, 3))
    if PAGE.exists():
        refused = clean(command, *shown[2].split(), cwd=tmp_path, codes=(2,)).stderr
        extra = re.findall(r"zombiescope\[web\]", readme)
        assert extra and extra[0] in refused
        clean(command, "view", "--sample", "-o", "page.html", cwd=tmp_path)
    verbs = set(re.findall(r"`([a-z]+)`", readme[readme.index("Next: ") : readme.index("Needs Linux")]))
    assert {"top", "record", "agent", "before", "audit", "census", "gate", "flame", "fleet"} <= verbs <= {*names("cli")}
    for verb in sorted(verbs):
        assert clean(command, verb, "--help", cwd=tmp_path).stdout.startswith(f"usage: zombiescope {verb} ")


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    plain = {_name(it) for it in project["dependencies"]}
    extra = {_name(it) for name, group in extras.items() if name != "dev" for it in group}
    packages = packages_distributions()
    used = set()
    for path in PROJECT.glob("src/zombiescope/**/*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            modules = [it.name for it in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            for root in {it.split(".")[0] for it in modules} - sys.stdlib_module_names - {"zombiescope"}:
                found = {_name(it) for it in packages.get(root, [root])}
                used |= found
                # What only an extra brings is imported where it is needed, never on the way to something else.
                declared = plain if node in tree.body else plain | extra
                assert found & declared, f"{path.name} imports {root}, which is not declared"
    assert plain <= used, "what nobody imports need not be installed"


def _name(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0].lower().replace("_", "-")


def test_the_demo_fetches_only_what_it_needs() -> None:
    """A browser, compilers and container runtimes are for the tests."""
    for target, wanted in (("demo", {"systemd", "dbus", "util-linux", "iproute2"}), ("test", {"chromium", "systemd"})):
        said = subprocess.run(["make", "-n", target], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
        (tools,) = re.findall(r"^for it in (.*?); do", said, re.MULTILINE)
        asked = {it.partition("=")[0] for it in tools.split()}
        assert asked == wanted if target == "demo" else wanted < asked
