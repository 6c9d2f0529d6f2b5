"""What a node cannot do without is known, with the reason; and in doubt it is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.core import Host
from zombiescope.treatment.essential import others_open, why_essential


@pytest.fixture
def machine(tmp_path: Path) -> Host:
    """A machine without containers, whose bus cannot be asked."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/system.slice/amazon-cloudwatch-agent.service\n0::/\n")
    (tmp_path / "proc/12").mkdir()
    (tmp_path / "proc/12/comm").write_text("bash\n")
    return Host(str(tmp_path), live=False)


@pytest.mark.parametrize(
    ("unit", "why"),
    [
        ("dbus.service", "talk over it"),
        ("systemd-journald.service", "part of systemd"),
        ("kubelet.service", "pods"),
        ("NetworkManager.service", "network"),
        ("multipathd.service", "storage"),
        ("nvidia-fabricmanager.service", "GPUs"),
        ("sshd.service", "only way left"),
        ("amazon-cloudwatch-agent.service", "this command runs in it"),
    ],
)
def test_essential(machine: Host, unit: str, why: str) -> None:
    assert why in why_essential(unit, machine)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "etcd.service",
            "kube-proxy.service",
            "k3s.service",
            "containerd.service",
            "crio.service",
            "cri-docker.service",
        ),
        *("calico-node.service", "cilium.service", "flanneld.service", "weave.service", "multus.service"),
        *("sssd.service", "slurmd.service", "munge.service", "chronyd.service", "chrony.service", "ntpd.service"),
        *("auditd.service", "rsyslog.service", "cron.service", "crond.service", "cloud-init.service"),
        *("corosync.service", "pacemaker.service", "sbd.service", "drbd.service", "watchdog.service"),  # they fence
        *("nvidia-persistenced.service", "nvidia-dcgm.service", "keepalived.service", "systemd-timesyncd.service"),
    ],
)
def test_essential_whatever_else_runs(machine: Host, unit: str) -> None:
    assert why_essential(unit, machine)


@pytest.mark.parametrize("unit", ["ecs.service", "snapd.service", "my-kubelet-exporter.service", "docker.service"])
def test_not_essential(machine: Host, unit: str) -> None:
    assert why_essential(unit, machine) == ""


@pytest.mark.parametrize("shim", ["containerd-shim", "conmon"])
def test_a_runtime_is_essential_while_a_container_runs(machine: Host, shim: str) -> None:
    Path(machine.root, "proc/12/comm").write_text(f"{shim}\n")
    assert "containers" in why_essential("docker.service", machine)


def test_where_processes_cannot_be_seen_a_runtime_is_in_use(tmp_path: Path) -> None:
    assert "containers" in why_essential("docker.service", Host(str(tmp_path), live=False))


@pytest.mark.parametrize(
    ("states", "open_"),
    [
        ({}, False),
        ({"ssh.service": "active", "ssh.socket": "active"}, False),
        ({"ssh.service": "active", "amazon-ssm-agent.service": "active"}, True),
        ({"ssh.service": "active", "amazon-ssm-agent.service": "activating"}, True),
        ({"ssh.service": "active", "amazon-ssm-agent.service": "failed"}, False),
        ({"amazon-ssm-agent.service": "inactive", "sshd.service": "active"}, True),
    ],
)
def test_the_last_way_in_is_not_closed(states: dict[str, str], open_: bool) -> None:
    assert others_open("ssh.service", states) is open_


def test_a_process_that_only_sounds_like_a_shim_is_none(machine: Host) -> None:
    Path(machine.root, "proc/12/comm").write_text("my-conmon\n")
    assert why_essential("docker.service", machine) == ""
    (Path(machine.root) / "proc/99").mkdir()  # it exits while it is asked for its name
    assert why_essential("docker.service", machine) == ""


def test_own_units_are_found_in_every_hierarchy_and_below_others(machine: Host) -> None:
    rows = "4:memory:/user.slice/session-3.scope\n0::/kubepods/x.service/deep\n1:name=systemd:/z.servicex\n"
    Path(machine.root, "proc/self/cgroup").write_text(rows)
    assert "this command runs in it" in why_essential("session-3.scope", machine)
    assert "this command runs in it" in why_essential("x.service", machine)
    assert why_essential("z.service", machine) == ""
