"""The container image: built from a base made here, twice the same, and it runs with a read-only root."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kubernetes.images import IMAGE, LIMITS, Podman, podman
from tests.kubernetes.lent import or_skipped

from zombiescope import __version__

pytestmark = [pytest.mark.alone, pytest.mark.long]
LARGEST = 600 << 20  # bytes


@pytest.fixture(scope="module")
def run() -> Iterator[Podman]:
    yield from or_skipped(podman())


def test_the_image(run: Podman) -> None:
    made = []
    for _ in range(2):
        run.build("--no-cache")
        made.append(run("image", "inspect", "--format", "{{.Id}} {{.Size}}", IMAGE).split())
    assert made[0][0] == made[1][0], "the same source makes the same image"
    print(f"{int(made[0][1]) / 1e6:.0f} MB")
    assert int(made[0][1]) < LARGEST
    start = ["run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", *LIMITS.split()]
    assert __version__ in run(*start, "--user", "65534", IMAGE, "--version")
    assert "signs can look here" in run(*start, "--tmpfs", "/tmp", IMAGE, "agent", "--check", expect=3)
    # What a look needs beyond that: numpy and Arrow with their libraries.
    assert "ecs.service keeps crashing" in run(*start, "--tmpfs", "/tmp", IMAGE, "diagnose", "--sample", expect=1)
