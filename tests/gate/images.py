"""Small images as debootstrap would leave them: a clean one, and one with the incident's agent as packaged."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tests.files import write

from zombiescope.core import Host
from zombiescope.gate._image import Image
from zombiescope.gate._lists import Allowance
from zombiescope.gate._objection import Ruling
from zombiescope.gate._rulings import rulings

LIB, ETC = "usr/lib/systemd/system", "etc/systemd/system"
WANTS = f"{ETC}/multi-user.target.wants"
# The settings of the agent's Debian package: no RestartPreventExitStatus=5.
ECS = """[Unit]
Description=An agent
[Service]
ExecStart=/usr/libexec/agent
Restart=on-failure
RestartSec=10s
[Install]
WantedBy=multi-user.target
"""
PLAIN = "[Service]\nExecStart=/usr/sbin/thing\n[Install]\nWantedBy=multi-user.target\n"
CLEAN = {
    "etc/machine-id": "",  # as cloud images ship it: its first boot applies no presets
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 14 (forky)"\n',
    "etc/default/grub": 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX=""\n',
    "boot/vmlinuz-7.1.13-amd64": "",
    "usr/lib/modules/7.1.13-amd64/modules.dep": "",
    f"{LIB}/ssh.service": PLAIN,
    f"{LIB}/nginx.service": PLAIN,
    f"{LIB}/multi-user.target": "[Unit]\nDescription=x\n",
    f"{LIB}/apt-daily.timer": "[Timer]\nOnCalendar=*-*-* 6,18:00\n[Install]\nWantedBy=timers.target\n",
    "var/lib/dpkg/status": "Package: openssh-server\nStatus: install ok installed\n",
    "var/lib/dpkg/info/openssh-server.list": "/lib/systemd/system/ssh.service\n",
    "var/lib/dpkg/info/linux-image-7.1.13-amd64.list": "/boot/vmlinuz-7.1.13-amd64\n",
}
SICK = {
    **{name: text for name, text in CLEAN.items() if "7.1.13" not in name},
    "etc/os-release": 'PRETTY_NAME="Ubuntu 20.04.6 LTS"\n',
    "etc/default/grub": 'GRUB_CMDLINE_LINUX="systemd.unified_cgroup_hierarchy=0"\n',
    "boot/vmlinuz-5.4.0-1103-aws": "",
    "usr/lib/modules/5.4.0-1103-aws/modules.dep": "",
    "var/lib/dpkg/info/linux-image-5.4.0-1103-aws.list": "/boot/vmlinuz-5.4.0-1103-aws\n",
    f"{LIB}/ecs.service": ECS,
    f"{LIB}/poll.timer": "[Timer]\nOnUnitActiveSec=30s\n[Install]\nWantedBy=timers.target\n",
}
LINKS = {
    f"{WANTS}/ssh.service": f"/{LIB}/ssh.service",
    f"{WANTS}/nginx.service": f"/{LIB}/nginx.service",
    f"{ETC}/timers.target.wants/apt-daily.timer": f"/{LIB}/apt-daily.timer",
    "lib": "usr/lib",
}
SICK_LINKS = {
    **LINKS,
    f"{WANTS}/ecs.service": f"/{LIB}/ecs.service",
    f"{ETC}/timers.target.wants/poll.timer": f"/{LIB}/poll.timer",
}


def clean(folder: Path, files: Mapping[str, str] | None = None, links: Mapping[str, str] | None = None) -> Path:
    """The clean image, with more in it."""
    return write(folder, {**CLEAN, **(files or {})}, {**LINKS, **(links or {})})


def sick(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    return write(folder, {**SICK, **(files or {})}, SICK_LINKS)


def judged(folder: Path, *, allowed: list[str] | None = None, strict: bool = False) -> dict[str, Ruling]:
    listed = None if allowed is None else [Allowance(unit=unit) for unit in allowed]
    image = Image(Host(str(folder), live=False), allowed=listed)
    return {ruling.rule: ruling for ruling in rulings(image, strict=strict)}


def objections(ruling: Ruling) -> list[tuple[str, str]]:
    return [(it.level, it.subject) for it in ruling.objections]


def member(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, to: str = "", size: int | None = None
) -> tuple[tarfile.TarInfo, bytes]:
    """One member of a tar, as hostile as asked for: the size in its header need not be true."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    info.size = len(content) if size is None else size
    return info, content


def packed(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for info, content in members:
            if info.size == len(content):
                tar.addfile(info, io.BytesIO(content))
            else:
                tar.fileobj.write(info.tobuf() + content)
                tar.offset += 512 + len(content)
    return path
