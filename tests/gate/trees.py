"""Small trees laid out as distributions lay theirs out, and every place from which systemd starts a unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.files import write
from tests.gate.images import ETC, LIB

UNIT = "[Service]\nExecStart=/bin/true\n"
# The agent of the incident, without an [Install] section: only what is planted starts it.
LEAK = "[Service]\nExecStart=/usr/libexec/agent\nRestart=on-failure\nRestartSec=10s\n"
INSTALL = "[Install]\nWantedBy=multi-user.target\n"
_TARGETS = {
    f"{LIB}/graphical.target": "[Unit]\nRequires=multi-user.target\n",
    f"{LIB}/multi-user.target": "[Unit]\nRequires=basic.target\n",
    f"{LIB}/basic.target": "[Unit]\nRequires=sysinit.target\nWants=sockets.target timers.target paths.target\n",
    **{f"{LIB}/{name}.target": "[Unit]\n" for name in ("sysinit", "sockets", "timers", "paths", "rescue", "lonely")},
    f"{LIB}/app.service": UNIT,
}
_MERGED = {"lib": "usr/lib", f"{LIB}/default.target": "graphical.target"}
_APP = {f"{LIB}/multi-user.target.wants/app.service": "../app.service"}
_DISABLE = {"usr/lib/systemd/system-preset/99-default-disable.preset": "disable *\n"}
_DPKG = {"var/lib/dpkg/info/app.list": "/lib/systemd/system/app.service\n"}
NEVER_BOOTED = {"etc/machine-id": "uninitialized\n"}


@dataclass(frozen=True)
class Tree:
    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)


TREES = {
    "ubuntu": Tree(
        {"etc/os-release": 'PRETTY_NAME="Ubuntu 24.04 LTS"\n', "etc/machine-id": "", **_TARGETS, **_DPKG},
        {**_MERGED, f"{ETC}/multi-user.target.wants/app.service": "/lib/systemd/system/app.service"},
    ),
    "debian": Tree(
        {"etc/machine-id": f"{'5f' * 16}\n", "usr/lib/os-release": "NAME=Debian\n", **_TARGETS, **_DPKG},
        {
            **_MERGED,
            f"{ETC}/default.target": f"/{LIB}/multi-user.target",
            f"{ETC}/app-alias.service": f"/{LIB}/app.service",
            f"{ETC}/multi-user.target.wants/app.service": f"/{LIB}/app.service",
        },
    ),
    "al2023": Tree(
        {"etc/os-release": 'PRETTY_NAME="Amazon Linux 2023"\n', **NEVER_BOOTED, **_TARGETS, **_DISABLE},
        {**_MERGED, **_APP},
    ),
    "flatcar": Tree({"usr/lib/os-release": 'PRETTY_NAME="Flatcar"\n', **_TARGETS, **_DISABLE}, {**_MERGED, **_APP}),
    "bootc": Tree(
        {
            "usr/lib/os-release": 'NAME="CentOS Stream"\n',
            **NEVER_BOOTED,
            **_TARGETS,
            **_DISABLE,
            "usr/lib/bootc/kargs.d/10-console.toml": 'kargs = ["console=ttyS0"]\n',
        },
        {**_MERGED, **_APP},
    ),
    "node": Tree(
        {"etc/machine-id": f"{'a1' * 16}\n", **_TARGETS, "run/systemd/generator/x.mount": "[Mount]\n"},
        {**_MERGED, **_APP},
    ),
}
_AT = {f"{LIB}/ecs.service": LEAK}
# Where a unit can be started from: each makes systemd start ecs.service at boot.
PLANTS = {
    "wants in a file": Tree({**_AT, f"{LIB}/app.service": f"[Unit]\nWants=a.service ecs.service\n{UNIT}"}),
    "requires in a drop-in": Tree({**_AT, f"{ETC}/app.service.d/x.conf": "[Unit]\nRequires=ecs.service\n"}),
    "upholds": Tree({**_AT, f"{LIB}/app.service.d/x.conf": "[Unit]\nUpholds=ecs.service\n"}),
    "binds to, through another": Tree(
        {
            **_AT,
            f"{LIB}/app.service.d/x.conf": "[Unit]\nWants=b.service\n",
            f"{LIB}/b.service": f"[Unit]\nBindsTo=ecs.service\n{UNIT}",
        }
    ),
    ".wants in /usr": Tree(_AT, {f"{LIB}/sysinit.target.wants/ecs.service": "../ecs.service"}),
    ".requires in /etc": Tree(_AT, {f"{ETC}/basic.target.requires/ecs.service": f"/{LIB}/ecs.service"}),
    ".upholds": Tree(_AT, {f"{ETC}/multi-user.target.upholds/ecs.service": f"/{LIB}/ecs.service"}),
    ".wants of a service": Tree(_AT, {f"{ETC}/app.service.wants/ecs.service": f"/{LIB}/ecs.service"}),
    "/usr/local": Tree(
        {"usr/local/lib/systemd/system/ecs.service": LEAK},
        {"usr/local/lib/systemd/system/timers.target.wants/ecs.service": "../ecs.service"},
    ),
    "socket": Tree(
        {**_AT, f"{LIB}/sockets.target.wants/ecs.socket": "", f"{LIB}/ecs.socket": "[Socket]\nListenStream=1\n"}
    ),
    "socket of another name": Tree(
        {**_AT, f"{LIB}/sockets.target.wants/x.socket": "", f"{LIB}/x.socket": "[Socket]\nService=ecs.service\n"}
    ),
    "timer": Tree({**_AT, f"{LIB}/timers.target.wants/ecs.timer": "", f"{LIB}/ecs.timer": "[Timer]\nOnBootSec=1\n"}),
    "timer of another name": Tree(
        {**_AT, f"{LIB}/timers.target.wants/x.timer": "", f"{LIB}/x.timer": "[Timer]\nOnBootSec=1\nUnit=ecs.service\n"}
    ),
    "path": Tree({**_AT, f"{LIB}/paths.target.wants/ecs.path": "", f"{LIB}/ecs.path": "[Path]\nPathExists=/\n"}),
    "rule of udev": Tree(
        {
            **_AT,
            "usr/lib/udev/rules.d/80-x.rules": 'SUBSYSTEM=="net", TAG+="systemd", ENV{SYSTEMD_WANTS}+="ecs.service"\n',
        }
    ),
    "rule of udev, over several lines, that wants what wants it": Tree(
        {
            **_AT,
            f"{LIB}/p@.service": f"[Unit]\nWants=ecs.service\n{UNIT}",
            "etc/udev/rules.d/80-x.rules": '# x\nKERNEL=="sd*", \\\n ENV{SYSTEMD_WANTS}="a.service p@$name.service"\n',
        }
    ),
    "generator": Tree(
        {"run/systemd/generator/ecs.service": LEAK},
        {"run/systemd/generator/multi-user.target.wants/ecs.service": "../ecs.service"},
    ),
    "generator.late": Tree(
        {"run/systemd/generator.late/ecs.service": LEAK},
        {
            "run/systemd/generator.late/graphical.target.wants/ecs.service": "../ecs.service",
            f"{ETC}/default.target": f"/{LIB}/graphical.target",
        },
    ),
    "alias": Tree(
        _AT,
        {
            f"{ETC}/agent.service": f"/{LIB}/ecs.service",
            f"{ETC}/multi-user.target.wants/agent.service": f"/{LIB}/ecs.service",
        },
    ),
    "preset": Tree(
        {
            **NEVER_BOOTED,
            f"{LIB}/ecs.service": LEAK + INSTALL,
            "usr/lib/systemd/system-preset/50-x.preset": "enable ecs.*\n",
        }
    ),
    "preset of the administrator": Tree(
        {
            **NEVER_BOOTED,
            f"{LIB}/ecs.service": LEAK + INSTALL,
            "usr/lib/systemd/system-preset/50-x.preset": "disable *\n",
            "etc/systemd/system-preset/10-x.preset": "; ours\nenable ecs.service\n",
        }
    ),
    "preset of what brings it along": Tree(
        {
            **NEVER_BOOTED,
            f"{LIB}/ecs.service": LEAK + INSTALL,
            f"{LIB}/c.service": f"{UNIT}[Install]\nAlso=ecs.service\n",
            "usr/lib/systemd/system-preset/50-x.preset": "enable c.service\n",
        }
    ),
    "preset of another target's template": Tree(
        {
            **NEVER_BOOTED,
            **_AT,
            f"{LIB}/p@.service": f"[Unit]\nWants=%i.service\n{UNIT}{INSTALL}",
            "usr/lib/systemd/system-preset/50-x.preset": "enable p@.service ecs\n",
        }
    ),
    "template with a default instance": Tree(
        {
            **NEVER_BOOTED,
            **_AT,
            f"{LIB}/p@.service": f"[Unit]\nWants=%i.service\n{UNIT}{INSTALL}DefaultInstance=ecs\n",
            "usr/lib/systemd/system-preset/50-x.preset": "enable p@.service\n",
        }
    ),
    "template in .wants": Tree(
        {**_AT, f"{LIB}/p@.service": f"[Unit]\nWants=%i.service\n{UNIT}"},
        {f"{ETC}/multi-user.target.wants/p@ecs.service": f"/{LIB}/p@.service"},
    ),
    "prefix drop-in": Tree(
        {
            **_AT,
            f"{LIB}/app-x-y.service": UNIT,
            f"{LIB}/multi-user.target.wants/app-x-y.service": "",
            f"{ETC}/app-x-.service.d/a.conf": "[Unit]\nWants=ecs.service\n",
        }
    ),
    "drop-in of every service": Tree({**_AT, f"{ETC}/service.d/a.conf": "[Unit]\nWants=ecs.service\n"}),
    "drop-in of an alias": Tree(
        {**_AT, f"{ETC}/other.service.d/a.conf": "[Unit]\nWants=ecs.service\n"},
        {f"{ETC}/other.service": f"/{LIB}/app.service"},
    ),
}
# Where nothing starts it, though it looks so.
IDLE = {
    "installed only": Tree({f"{LIB}/ecs.service": LEAK + INSTALL, "etc/machine-id": ""}),
    "wanted by a target that nothing pulls in": Tree(_AT, {f"{LIB}/lonely.target.wants/ecs.service": "../ecs.service"}),
    "wanted by what is for rescue": Tree(_AT, {f"{ETC}/rescue.target.wants/ecs.service": f"/{LIB}/ecs.service"}),
    "masked": Tree({f"{LIB}/multi-user.target.wants/ecs.service": ""}, {f"{ETC}/ecs.service": "/dev/null"}),
    "wanted by what is masked": Tree(
        {**_AT, f"{LIB}/ecs.timer": "[Timer]\nOnBootSec=1\n", f"{LIB}/timers.target.wants/ecs.timer": ""},
        {f"{ETC}/ecs.timer": "/dev/null"},
    ),
    "wanted by what is not started": Tree({**_AT, f"{LIB}/idle.service": f"[Unit]\nRequires=ecs.service\n{UNIT}"}),
    "a rule of udev that an administrator switched off": Tree(
        {**_AT, "usr/lib/udev/rules.d/80-x.rules": 'ENV{SYSTEMD_WANTS}+="ecs.service"\n'},
        {"etc/udev/rules.d/80-x.rules": "/dev/null"},
    ),
    "a rule of udev that compares, or is a comment": Tree(
        {
            **_AT,
            "etc/udev/rules.d/80-x.rules": '#ENV{SYSTEMD_WANTS}="ecs.service"\nENV{SYSTEMD_WANTS}=="ecs.service"\n',
        }
    ),
    "requisite": Tree({**_AT, f"{LIB}/app.service": f"[Unit]\nRequisite=ecs.service\n{UNIT}"}),
    "disabled by a preset": Tree(
        {
            **NEVER_BOOTED,
            f"{LIB}/ecs.service": LEAK + INSTALL,
            "usr/lib/systemd/system-preset/00-x.preset": "disable ecs.*\nenable *\n",
        }
    ),
}


def lay_out(folder: Path, *trees: Tree) -> Path:
    """Several trees in one folder; a later one replaces what it also has."""
    files = {name: text for tree in trees for name, text in tree.files.items()}
    links = {name: target for tree in trees for name, target in tree.links.items()}
    return write(folder, {name: text for name, text in files.items() if name not in links}, links)
