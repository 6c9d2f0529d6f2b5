"""Every fault of the lab really happens and is told as it is; every control accuses nobody; nothing is left behind."""

from __future__ import annotations

import os
from glob import glob

import pytest
from tests.conftest import CANNOT

from zombiescope.core import UserError
from zombiescope.core.rooms import load, names
from zombiescope.lab._bench import diagnosed
from zombiescope.lab._scenario import missing

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups")]
ELSEWHERE = {"pinterest": "test_incident.py", "stat_walker": "cli/test_lab.py"}
# A fault needs a core of its own, and machines have neighbours: what is not seen at once may be seen the second time.
# An innocent who is accused is accused once too often.
ATTEMPTS = 2


@pytest.mark.parametrize("name", [name for name in names("lab") if name not in ELSEWHERE])
def test_the_truth_is_told(name: str) -> None:
    scenario = load("lab", name)
    if lacking := missing(scenario.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
    try:
        for _ in range(ATTEMPTS):
            run = diagnosed(name, scenario, 1.0)
            if run.judgement.right or not scenario.TRUTH.root:
                break
    except UserError as error:
        pytest.skip(CANNOT + str(error))
    said = [[f"{it['sign']} {it['subject']}" for it in chain] for chain in run.told["chains"]]
    assert run.judgement.right, (run.judgement, said, [it for it in run.told["verdicts"] if it["state"] != "clear"])
    assert not [it for it in run.told["verdicts"] if it["state"] == "broken"]
    assert not _left_behind()


def _left_behind() -> list[str]:
    """What this process's scenarios made and did not take away."""
    patterns = ("/run/netns/*", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*", "/dev/shm/*", "/tmp/zslab-*")
    paths = [path for pattern in patterns for path in glob(pattern)]
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        return [path for path in paths if path.endswith(f"-{os.getpid()}")] + children.read().split()
