"""What an image or a machine is, and what its kernel lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import machine

from zombiescope.audit.facts import facts
from zombiescope.knowledge.kernels import version_of

HYBRID = "1 0 0:1 / /a rw - cgroup cgroup rw,memory\n2 0 0:2 / /b rw - cgroup2 cgroup2 rw\n"


def test_the_incidents_machine(tmp_path: Path) -> None:
    known = facts(
        machine(
            tmp_path,
            {
                "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 20.04.6 LTS"\n',
                "proc/sys/kernel/osrelease": "5.4.0-1103-aws\n",
                "proc/self/mountinfo": HYBRID,
                "proc/cmdline": 'BOOT_IMAGE=/x ro psi=1 cgroup_enable=memory dyndbg="file x +p\n',
            },
        )
    )
    assert (known.system, known.kernels, known.cgroups) == ("Ubuntu 20.04.6 LTS", ("5.4.0-1103-aws",), "hybrid")
    assert known.parameters == ("psi=1", "cgroup_enable=memory")
    assert [fault.version for fault in known.faults] == ["5.8", "5.9", "5.13", "6.12", "7.1"]


def test_an_image_is_judged_by_the_oldest_kernel_in_it(tmp_path: Path) -> None:
    known = facts(machine(tmp_path, {"usr/lib/modules/6.14.0-1/": "", "usr/lib/modules/5.15.0-7-aws/": ""}))
    assert known.kernels == ("5.15.0-7-aws", "6.14.0-1") and [it.version for it in known.faults] == ["6.12", "7.1"]
    assert known.cgroups == ""


def test_an_empty_root_is_unknown_not_an_error(tmp_path: Path) -> None:
    known = facts(machine(tmp_path, {}))
    assert known.system == "" and known.kernels == () and known.faults == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4.8.0", (4, 8)),
        ("6.18.44-fc", (6, 18)),
        ("6.1", (6, 1)),
        ("x", None),
        ("9" * 5000 + ".1", None),
        ("1." + "9" * 99, None),
    ],
)
def test_versions(text: str, version: tuple[int, int] | None) -> None:
    assert version_of(text) == version
