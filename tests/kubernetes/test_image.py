"""The container image: built from a base made here, twice the same, and it runs with a read-only root."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from tests.conftest import PROJECT
from tests.kubernetes.images import IMAGE, LIMITS, Podman, podman
from tests.kubernetes.lent import or_skipped

from zombiescope import __version__
from zombiescope.plugin.pods import CAPABILITIES

pytestmark = [pytest.mark.alone, pytest.mark.long]
LARGEST = 600 << 20  # bytes
PORT = 19489


@pytest.fixture(scope="module")
def run() -> Iterator[Podman]:
    yield from or_skipped(podman())


def test_the_image(run: Podman) -> None:
    made, parts = [], []
    for _ in range(2):
        run.build("--no-cache")
        made.append(run("image", "inspect", "--format", "{{.Id}} {{.Digest}} {{.Size}}", IMAGE).split())
        parts.append((PROJECT / "dist" / "zombiescope.cdx.json").read_bytes())
    assert made[0] == made[1], "the same source makes the same image"
    assert parts[0] == parts[1], "and the same list of its parts"
    print(f"{int(made[0][2]) / 1e6:.0f} MB")
    assert int(made[0][2]) < LARGEST
    start = ["run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", *LIMITS.split()]
    assert __version__ in run(*start, "--user", "65534", IMAGE, "--version")
    assert "signs can look here" in run(*start, "--tmpfs", "/tmp", IMAGE, "agent", "--check", expect=3)
    # What a look needs beyond that: numpy and Arrow with their libraries.
    assert "ecs.service keeps crashing" in run(*start, "--tmpfs", "/tmp", IMAGE, "diagnose", "--sample", expect=1)
    _lists_what_is_there(json.loads(parts[0]))


def _lists_what_is_there(bill: dict[str, Any]) -> None:
    """Compared with the names of the wheels that were put there."""
    listed = {(it["name"], it["version"]) for it in bill["components"] if it["purl"].startswith("pkg:pypi/")}
    wheels = [it.name.split("-")[:2] for it in (PROJECT / "dist" / "wheels").glob("*.whl")]
    assert listed == {(name.replace("_", "-").lower(), version) for name, version in wheels}
    # The base from here was unpacked without dpkg, so it has no list of Debian's packages: that is said.
    assert "system packages" in bill["metadata"]["properties"][0]["value"]


def test_what_the_agent_takes_in_it(run: Podman) -> None:
    """Start-up and memory in the image, with the chart's rights, looking at this machine."""
    if not run("images", "--quiet", IMAGE).strip():
        run.build()
    rights = [word for it in CAPABILITIES for word in ("--cap-add", it)]
    options = [
        "--network",
        "host",
        "--pid",
        "host",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--tmpfs",
        "/var/lib/zombiescope:mode=0700",
    ]
    sees = ["--volume", "/:/host:ro,rslave", "--cap-drop", "ALL", *rights, "--memory", "600m"]
    agent = ["agent", "--host", "/host", "--listen", f"127.0.0.1:{PORT}", "--every", "10s", "--log-format", "json"]
    began = time.monotonic()
    name = run("run", "--detach", *options, *sees, *LIMITS.split(), IMAGE, *agent).strip()
    try:
        _until(lambda: _get("/") is not None)
        print(f"it answers after {time.monotonic() - began:.1f} s, the start of the container included")
        _until(lambda: _get("/healthz") is not None)
        print(f"it has looked after {time.monotonic() - began:.1f} s")
        _until(lambda: re.search(r"own_memory_bytes{.*examiner", _get("/metrics") or ""))
        sizes = dict(re.findall(r'own_memory_bytes{process="(\w+)"} (\S+)', _get("/metrics") or ""))
        print(json.dumps({name: f"{float(it) / 1e6:.0f} MB" for name, it in sizes.items()}))
        assert sum(map(float, sizes.values())) < 250e6
    finally:
        print(run("logs", "--tail", "5", name))
        run("rm", "--force", name)


def _get(path: str) -> str | None:
    try:
        with urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=10) as answer:
            return str(answer.read(), "utf-8")
    except OSError:
        return None


def _until(happened: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)
