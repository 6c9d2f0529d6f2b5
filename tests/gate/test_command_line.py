"""Kernel command lines in every place that holds one, and roots that have no kernel at all."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.files import write
from tests.gate.images import CLEAN, LINKS, clean, judged, objections

from zombiescope.core import Host
from zombiescope.gate._image import Image
from zombiescope.gate._rulings import rulings

BAD = "cgroup_disable=memory"
SAID = f"root=/dev/vda1 {BAD} quiet"


def unified(**sections: bytes) -> bytes:
    """A PE file as ukify lays it out: a DOS stub, headers, the table of sections, the sections."""
    head = b"MZ" + bytes(58) + struct.pack("<I", 128) + bytes(64)
    head += b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, 240, 0x22E) + bytes(240)
    place, table, body = len(head) + 40 * len(sections), b"", b""
    for name, text in sections.items():
        table += struct.pack("<8sIIII", f".{name}".encode(), len(text), 0, len(text) + 3, place + len(body)) + bytes(16)
        body += text + bytes(3)
    return head + table + body


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("etc/default/grub", f'GRUB_CMDLINE_LINUX="{SAID}"\n'),
        ("etc/default/grub.d/50-x.cfg", f'GRUB_CMDLINE_LINUX_DEFAULT="{SAID}"\n'),
        ("boot/grub/grub.cfg", f"\tlinux\t/vmlinuz {SAID}\n"),
        ("boot/grub2/grub.cfg", f"  linuxefi /vmlinuz {SAID}\n"),
        ("boot/grub2/grubenv", f"# GRUB Environment Block\nkernelopts={SAID}\n######"),
        ("boot/loader/entries/a.conf", f"title x\noptions {SAID}\n"),
        ("boot/loader.0/entries/ostree-2.conf", f"options {SAID}\n"),
        ("boot/loader.1/entries/ostree-1.conf", f"title x\noptions {SAID} ostree=/ostree/boot.1/x/0\n"),
        ("efi/loader/entries/a.conf", f"options {SAID}\n"),
        ("boot/efi/loader/entries/a.conf", f"options {SAID}\n"),
        ("etc/kernel/cmdline", f"{SAID}\n"),
        ("usr/lib/kernel/cmdline", f"{SAID}\n"),
        ("usr/lib/bootc/kargs.d/10-x.toml", f'kargs = ["root=/dev/vda1", "{BAD}"]\nmatch-architectures = ["x86_64"]\n'),
        ("boot/extlinux/extlinux.conf", f"label l0\n\tlinux /vmlinuz\n\tAPPEND {SAID}\n"),
        ("boot/syslinux/syslinux.cfg", f"  append {SAID}\n"),
        ("etc/default/u-boot", f'U_BOOT_PARAMETERS="{SAID}"\n'),
    ],
)
def test_every_place(tmp_path: Path, path: str, text: str) -> None:
    told = judged(clean(tmp_path, {path: text}))["cgroup_mode"]
    assert objections(told) == [("error", f"parameter:{BAD}")] and told.objections[0].where == f"/{path}"


@pytest.mark.parametrize("path", ["boot/EFI/Linux", "boot/efi/EFI/Linux", "efi/EFI/Linux", "efi/loader/addons"])
def test_a_unified_kernel_image(tmp_path: Path, path: str) -> None:
    root = clean(tmp_path)
    (root / path).mkdir(parents=True)
    sections = {
        "text": b"x" * 5000,
        "cmdline": SAID.encode() + b"\n\0",
        "uname": b"5.4.0-1-uki\0",
        "linux": b"y" * 9000,
    }
    (root / path / "a.efi").write_bytes(unified(**sections))
    told = judged(root)
    assert objections(told["cgroup_mode"]) == [("error", f"parameter:{BAD}")]
    assert ("error", "kernel:5.4.0-1-uki") in objections(told["leaking_kernel"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"MZ",
        b"MZ" + bytes(58) + b"\xff\xff\xff\xff",
        unified(cmdline=b"x")[:150],
        b"\x7fELF" + bytes(200),
        b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + b"\xff" * 20,
    ],
)
def test_a_damaged_unified_image_is_blind_or_empty_and_never_a_crash(tmp_path: Path, content: bytes) -> None:
    root = clean(tmp_path)
    (root / "efi/EFI/Linux").mkdir(parents=True)
    (root / "efi/EFI/Linux/a.efi").write_bytes(content)
    told = judged(root)["cgroup_mode"]
    assert not told.objections and (told.state == "blind") == (not content.endswith(b"\xff" * 20))


def test_a_unified_image_that_is_no_file_or_leads_out_is_blind(tmp_path: Path) -> None:
    (tmp_path / "secret.efi").write_bytes(unified(cmdline=SAID.encode()))
    root = clean(tmp_path / "root")
    (root / "efi/EFI/Linux").mkdir(parents=True)
    os.mkfifo(root / "efi/EFI/Linux/fifo.efi")
    (root / "efi/EFI/Linux/out.efi").symlink_to(tmp_path / "secret.efi")
    told = judged(root)["cgroup_mode"]
    assert not told.objections and [it.source for it in told.unseen] == [
        "/efi/EFI/Linux/fifo.efi",
        "/efi/EFI/Linux/out.efi",
    ]


def test_kargs_that_are_no_toml_are_blind(tmp_path: Path) -> None:
    told = judged(
        clean(tmp_path, {"usr/lib/bootc/kargs.d/a.toml": "kargs = [", "usr/lib/bootc/kargs.d/b.toml": "kargs = 3\n"})
    )
    assert [it.why for it in told["cgroup_mode"].unseen] == ["not valid TOML", "kargs is not a list of texts"]


def test_modules_without_their_kernel_are_a_note_beside_one_that_boots(tmp_path: Path) -> None:
    modes = {"etc/kernel/cmdline": "systemd.unified_cgroup_hierarchy=0"}
    root = clean(tmp_path, {"usr/lib/modules/5.4.0-1103-aws/modules.dep": "", **modes})
    assert objections(judged(root)["cgroup_mode"]) == [("note", "parameter:systemd.unified_cgroup_hierarchy=0")]
    told = judged(root)["leaking_kernel"]
    assert told.state == "pass" and {it.level for it in told.objections} == {"note"}
    assert "modules without a kernel image" in told.objections[0].says
    (root / "usr/lib/modules/5.4.0-1103-aws/vmlinuz").touch()
    assert judged(root)["leaking_kernel"].state == "fail", "Fedora keeps the kernel there"
    assert judged(root)["cgroup_mode"].state == "fail", "the one that can be booted walks them all"
    (root / "usr/lib/modules/5.4.0-1103-aws/vmlinuz").unlink()
    (root / "boot/vmlinuz-7.1.13-amd64").unlink()
    assert judged(root)["leaking_kernel"].state == "fail", "/boot may be a partition of its own"


def without(root: Path, *gone: str) -> Path:
    for path in gone:
        shutil.rmtree(root / path) if (root / path).is_dir() else (root / path).unlink()
    return root


def test_the_root_of_a_container_passes_what_applies_and_says_what_does_not(zombiescope: Run, tmp_path: Path) -> None:
    root = without(write(tmp_path, CLEAN, LINKS), "boot", "usr/lib/modules", "etc/default")
    told = judged(root)
    assert {name for name, it in told.items() if it.state == "skipped"} == {
        "leaking_kernel",
        "cgroup_mode",
        "unknown_unit",
        "stale_allowance",
    }
    assert "no kernel and no boot loader" in told["cgroup_mode"].says
    said = zombiescope("gate", "--root", str(root), expect=0).stdout
    assert said.startswith("gate: PASS") and said.count("does not apply: no kernel") == 2


@pytest.mark.parametrize(
    ("gone", "blind"), [("boot usr/lib/modules", "leaking_kernel"), ("etc/default", "cgroup_mode")]
)
def test_half_of_a_machine_is_blind(tmp_path: Path, gone: str, blind: str) -> None:
    told = judged(without(clean(tmp_path), *gone.split()))
    assert [name for name, it in told.items() if it.state == "blind"] == [blind]


def test_a_command_line_that_is_said(zombiescope: Run, tmp_path: Path) -> None:
    root = str(without(clean(tmp_path), "etc/default"))
    zombiescope("gate", "--root", root, expect=3)
    zombiescope("gate", "--root", root, "--cmdline", "quiet", expect=0)
    failed = zombiescope("gate", "--root", root, "--cmdline", SAID, expect=1)
    assert f"parameter:{BAD}" in failed.stdout and "--cmdline" in failed.stdout
    assert "--cmdline needs --root" in zombiescope("gate", "--cmdline", SAID, expect=2).stderr
    image = Image(Host(root, live=False), cmdline="'")
    assert {it.rule: it.state for it in rulings(image)}["cgroup_mode"] == "pass"


def test_a_section_that_does_not_say_its_length_in_memory_is_as_long_as_in_the_file(tmp_path: Path) -> None:
    content = bytearray(unified(cmdline=SAID.encode()))
    place = content.index(b".cmdline") + 8
    content[place : place + 4] = bytes(4)
    root = clean(tmp_path)
    (root / "efi/EFI/Linux").mkdir(parents=True)
    (root / "efi/EFI/Linux/a.efi").write_bytes(content)
    assert objections(judged(root)["cgroup_mode"]) == [("error", f"parameter:{BAD}")]
