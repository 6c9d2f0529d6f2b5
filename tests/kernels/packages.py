"""Kernels of Debian's suites, fetched by an apt of our own, and the tools to boot them; all of it only once.

The machine's own apt configuration is read, for its mirrors and its proxy, and never changed: the other suites are
listed, and their indices kept, in a folder of ours.
"""

from __future__ import annotations

import lzma
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

META = (
    "linux-image-cloud-amd64"  # each suite has it, and it depends on the newest kernel there; small and quick to boot
)
# Kernel packages proper; what else they depend on makes an initramfs or sets up a boot loader.
_KERNEL = re.compile(r"\blinux-(?:image|binary|modules)-\d[^\s,(]*")
_LOOP = "loop.ko"  # to mount a file as ext4, which itself is built into these kernels
_TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs", "dpkg-deb": "dpkg", "ldd": "libc-bin"}
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])  # not all users have the latter


class Lacking(Exception):
    """Something that is needed is neither here nor to be had; says what."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, ready to boot, with the module that makes a disk of a file, if it has that."""

    image: Path
    loop: Path | None


@dataclass(frozen=True, slots=True)
class _Source:
    options: str  # as in one line of sources.list, brackets included
    uri: str
    suites: tuple[str, ...]


def cache_folder() -> Path:
    """Where what was fetched stays between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "zombiescope" / "kernels"


def tool(name: str) -> str:
    """The full path of a tool."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise Lacking(f"{name} is missing (Debian has it in {_TOOLS[name]})")
    return found


def install_tools() -> None:
    """Put in place what is not there yet; only root can."""
    missing = sorted({package for name, package in _TOOLS.items() if shutil.which(name, path=_PATH) is None})
    if not missing:
        return
    wanted = " ".join(missing)
    if not shutil.which("apt-get", path=_PATH):
        raise Lacking(f"{wanted}: missing, and there is no apt-get to install it")
    if os.geteuid() != 0:
        raise Lacking(f"{wanted}: missing; run once as root, or: apt-get install --no-install-recommends {wanted}")
    print(f"installing {wanted}", flush=True)
    quiet = {"capture_output": True, "text": True, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)  # type: ignore[call-overload]
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    done = subprocess.run(install, check=False, **quiet)  # type: ignore[call-overload]
    if done.returncode:
        raise Lacking(f"{wanted}: could not be installed ({_complaint(done.stderr)}); is there a network?")


def kernel(suite: str) -> Kernel:
    """The newest kernel of a Debian suite, from the cache if it is there."""
    folder = cache_folder() / suite
    if not (folder / "vmlinuz").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{suite}-", dir=folder.parent) as building:
            _fetch(suite, Path(building))
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(Path(building) / "kernel", folder)  # whole or not at all
    loop = folder / _LOOP
    return Kernel(folder / "vmlinuz", loop if loop.exists() else None)


def _fetch(suite: str, building: Path) -> None:
    print(f"fetching the kernel of {suite}", flush=True)
    apt = private_apt(suite, building)
    said = run_apt(["apt-get", "update", "-q"], apt).stderr
    packages: list[str] = []
    pending = [META]
    while pending:
        facts = run_apt(["apt-cache", "show", "--no-all-versions", pending.pop()], apt).stdout
        depends = "".join(re.findall(r"^(?:Pre-)?Depends:(.*)$", facts, re.MULTILINE))
        new = [name for name in dict.fromkeys(_KERNEL.findall(depends)) if name not in packages]
        packages += new
        pending += new
    if not packages:
        raise Lacking(f"no {META} in {suite} ({_complaint(said) or 'the mirror has none'}); is there a network?")
    got = run_apt(["apt-get", "download", "-q", *packages], apt, cwd=building)
    debs = sorted(building.glob("*.deb"))
    if got.returncode or len(debs) < len(packages):
        raise Lacking(f"{' '.join(packages)} of {suite} could not be fetched ({_complaint(got.stderr)})")
    (building / "kernel").mkdir()
    for deb in debs:
        _unpack(deb, building / "kernel")
    if not (building / "kernel" / "vmlinuz").exists():
        raise Lacking(f"{' '.join(packages)} of {suite} hold no kernel image")


# The machine's apt.conf stays in force, as a proxy may be set there; its sources, pins and state do not.
def private_apt(suite: str, building: Path, kind: str = "deb") -> dict[str, str]:
    """The environment of apt commands that read packages, or sources (deb-src), of a suite into a folder of ours."""
    (building / "lists" / "partial").mkdir(parents=True)
    (building / "archives" / "partial").mkdir(parents=True)
    listed = building / "sources.list"
    listed.write_text("".join(f"{line}\n" for line in _lines_for(suite, kind)))
    settings = {
        "Dir::Etc::SourceList": listed,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State::Lists": building / "lists",
        "Dir::State::Status": "/dev/null",
        "Dir::Cache": building,
        "APT::Sandbox::User": "root",  # the user that apt would fetch as may not enter our folder
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
    }
    written = building / "apt.conf"
    written.write_text("".join(f'{name} "{value}";\n' for name, value in settings.items()))
    return {**os.environ, "APT_CONFIG": str(written), "LC_ALL": "C"}


def _lines_for(suite: str, kind: str) -> list[str]:
    codename = _codename()
    lines = []
    for source in _sources():
        for own in source.suites:
            other = {codename: suite, f"{codename}-security": f"{suite}-security"}.get(own)
            if other is not None and other != "sid-security":  # what is in sid is fixed in sid
                lines.append(f"{kind} {source.options} {source.uri} {other} main")
    if not lines:
        raise Lacking(f"the apt sources of this machine name no mirror of Debian {codename}")
    return lines


def _codename() -> str:
    found = re.search(r"^VERSION_CODENAME=\"?(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)
    if found is None or not shutil.which("apt-get", path=_PATH):
        raise Lacking("this is not a Debian: kernels are fetched from the mirrors in its apt sources")
    return found[1]


def _sources() -> Iterator[_Source]:
    folder = Path("/etc/apt")
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = re.sub(r"^\s*#.*\n?", "", file.read_text(errors="replace"), flags=re.MULTILINE)
        yield from _stanzas(text) if file.suffix == ".sources" else _one_liners(text)


# deb [signed-by=/usr/share/keyrings/x.gpg] URI SUITE COMPONENT…
def _one_liners(text: str) -> Iterator[_Source]:
    for options, uri, suite in re.findall(r"^deb\s+(\[[^\]]*\])?\s*(\S+)\s+(\S+)\s", text, re.MULTILINE):
        yield _Source(options, uri, (suite,))


# Types: deb, URIs: …, Suites: …, Signed-By: …; stanzas are parted by an empty line.
def _stanzas(text: str) -> Iterator[_Source]:
    for stanza in re.split(r"\n\s*\n", text):
        fields = {key.lower(): value for key, value in re.findall(r"^([\w-]+):[ \t]*(\S.*)$", stanza, re.MULTILINE)}
        key = fields.get("signed-by", "")  # a key written out in the stanza begins on the next line; apt has others
        for uri in fields.get("uris", "").split() if "deb" in fields.get("types", "").split() else ():
            options = f"[signed-by={key}]" if key.startswith("/") else ""
            yield _Source(options, uri, tuple(fields.get("suites", "").split()))


def _unpack(deb: Path, folder: Path) -> None:
    unpack = [tool("dpkg-deb"), "--fsys-tarfile", str(deb)]
    with (
        subprocess.Popen(unpack, stdout=subprocess.PIPE) as unpacked,
        tarfile.open(fileobj=unpacked.stdout, mode="r|") as members,
    ):
        for member in members:
            name = Path(member.name).name
            content = members.extractfile(member) if member.isfile() else None
            if content and name.startswith("vmlinuz"):
                (folder / "vmlinuz").write_bytes(content.read())
            elif content and name in (_LOOP, f"{_LOOP}.xz"):
                raw = content.read()
                (folder / _LOOP).write_bytes(lzma.decompress(raw) if name.endswith(".xz") else raw)


def run_apt(command: list[str], env: dict[str, str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        raise Lacking(f"{shlex.join(command[:2])} took more than 300 s; is there a network?") from None


def _complaint(text: str) -> str:
    """The first of apt's complaints: those that follow from it come after it."""
    told = [line.strip() for line in text.splitlines() if line.startswith(("E: ", "W: "))]
    return told[0][3:] if told else ""
