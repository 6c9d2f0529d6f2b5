"""An agent whose examiner cannot be loaded: not healthy from its first second on, and it says what is missing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.error import HTTPError

import numpy
import pytest
from tests.agent.running import Agent, running
from tests.conftest import CANNOT

pytestmark = pytest.mark.beside


def troubles(agent: Agent) -> list[str]:
    """What /healthz complains of; empty if it is healthy."""
    try:
        return list(json.loads(agent.get("/healthz"))["troubles"])
    except HTTPError as refused:
        assert refused.code == 503
        return list(json.load(refused)["troubles"])


def test_before_the_first_look_nobody_knows(tmp_path: Path) -> None:
    with running(tmp_path, "--every", "2s") as agent:
        assert troubles(agent) == ["not looked yet"]
        agent.looked()
        agent.until(lambda: not troubles(agent))


@pytest.mark.skipif(os.geteuid() != 0, reason=CANNOT + "mount as nobody")
def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    """numpy's own library is hidden by an empty file, in mounts of the agent's own."""
    library = next(Path(numpy.__file__).parent.glob("_core/_multiarray_umath*.so"))
    (tmp_path / "empty").touch()
    hide = f'mount --bind {tmp_path}/empty {library} && exec "$@"'
    through = ("unshare", "--mount", "--propagation=private", "sh", "-c", hide, "sh")
    with running(tmp_path / "rec", through=through) as agent:
        agent.until(lambda: agent.said("the examiner ended"))
        found = troubles(agent)
    assert not agent.said("Traceback")
    assert any(it.startswith("the examiner does not run: exit code 3: cannot load what a look needs") for it in found)
    assert any("file too short" in it for it in found), found
