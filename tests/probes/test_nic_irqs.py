"""nic_irqs: the core of each queue, from rows as kernels and drivers have written them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, told, unseen

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.text import cores
from zombiescope.probes import nic_irqs
from zombiescope.probes.nic_irqs import Nic, parse

VIRTIO = """\
           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0     701478 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0      13531 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:      10828          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
NMI:          0          0   Non-maskable interrupts
LOC:     461421     496596   Local timer interrupts
ERR:          0
"""
ENA = """\
           CPU0       CPU1
 26:          0      53100   PCI-MSI 65538-edge      nvme0q2
 27:          0        845   PCI-MSI 81920-edge      ena-mgmnt@pci:0000:00:05.0
 28:    1455005          0   PCI-MSI 81921-edge      eth0-Tx-Rx-0
 29:          0    1870959   PCI-MSI 81922-edge      eth0-Tx-Rx-1
"""
ETH0 = Nic("eth0", "0000:00:05.0", frozenset({"27"}))


def link(root: Path, name: str, target: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).symlink_to(target)


def virtio_node(root: Path, effective: str = "1\n") -> Host:
    """As on a virtual machine: the card's interrupts are told by its parent on the PCI bus."""
    pci = "sys/devices/pci0000:00/0000:00:03.0"
    host = machine(
        root,
        {
            "proc/interrupts": VIRTIO,
            "proc/irq/37/effective_affinity_list": "0\n",
            "proc/irq/38/effective_affinity_list": effective,
            "proc/irq/38/smp_affinity_list": "0-1\n",
            "proc/irq/39/smp_affinity_list": "0-1\n",
            **{f"{pci}/msi_irqs/{irq}": "msix\n" for irq in (37, 38, 39)},
            f"{pci}/virtio2/net/eth0/queues/tx-0/tx_timeout": "3\n",
            f"{pci}/virtio2/net/eth0/queues/tx-1/tx_timeout": "4\n",
            f"{pci}/virtio2/net/eth0/queues/rx-0/rps_cpus": "0\n",
            "sys/devices/virtual/net/lo/queues/tx-0/tx_timeout": "0\n",
        },
    )
    link(root, f"{pci}/virtio2/net/eth0/device", "../../../virtio2")
    link(root, "sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0")
    link(root, "sys/class/net/lo", "../../devices/virtual/net/lo")
    return host


def test_read(tmp_path: Path) -> None:
    host = virtio_node(tmp_path)
    assert told(nic_irqs, host) == {
        ("nic_irq_cpu", "irq:37"): 0,
        ("nic_irq_cpu", "irq:38"): 1,
        ("nic_irq_cpu", "irq:39"): 0,  # this one may go to either; 0 has served all so far
        ("nic_interrupts_total", "irq:37"): 0,
        ("nic_interrupts_total", "irq:38"): 13531,
        ("nic_interrupts_total", "irq:39"): 10828,
        ("nic_tx_timeouts_total", "nic:eth0"): 7,
    }
    words = {it.subject: (it.text, it.source) for it in nic_irqs.read(host) if it.what == "nic_irq_cpu"}  # type: ignore[union-attr]
    assert words["irq:38"] == ("virtio2-input.0 (eth0)", "/proc/irq/38/effective_affinity_list")
    assert words["irq:39"] == ("virtio2-output.0 (eth0), most of cores 0-1", "/proc/irq/39/smp_affinity_list")


@pytest.mark.parametrize("effective", ["", "\n", "x\n", "7\n", "0-99999999\n"])
def test_what_was_asked_stands_in_for_what_is(tmp_path: Path, effective: str) -> None:
    sources = {it.subject: it.source for it in nic_irqs.read(virtio_node(tmp_path, effective)) if "cpu" in it.what}
    assert sources["irq:38"] == "/proc/irq/38/smp_affinity_list"


def test_an_interrupt_whose_core_is_not_told_is_blind_alone(tmp_path: Path) -> None:
    host = virtio_node(tmp_path)
    (tmp_path / "proc/irq/39/smp_affinity_list").unlink()
    blind = [it for it in nic_irqs.read(host) if isinstance(it, Blind)]
    assert [(it.what, it.subject) for it in blind] == [("nic_irq_cpu", "irq:39")]


def test_parse_by_number_and_by_name() -> None:
    found = parse(ENA, [ETH0])
    assert [(it.number, it.words) for it in found] == [
        ("27", "ena-mgmnt@pci:0000:00:05.0 (eth0)"),
        ("28", "eth0-Tx-Rx-0"),
        ("29", "eth0-Tx-Rx-1"),
    ]
    assert found[1].by_core == {0: 1455005, 1: 0}


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("194:   0 314283930   PCI-MSI-edge      eth0-TxRx-0", "eth0-TxRx-0"),  # 2.6
        ("124:   1000   0  IR-PCI-MSI-524288-edge      eth0-TxRx-0", "eth0-TxRx-0"),  # 4
        (" 76:   5   0  ITS-PCI-MSIX-0000:00:05.0   1 Edge      eth0-Tx-Rx-0", "eth0-Tx-Rx-0"),  # arm64
        (" 77:   5   0  xen-dyn    -event     eth0-q0-tx", "eth0-q0-tx"),
        ("142:   5   0  IR-PCI-MSIX-0000:3b:0a.0   1-edge      iavf-eth0-TxRx-3", "iavf-eth0-TxRx-3"),
        (" 16:  28   0   IO-APIC  16-fasteoi   uhci_hcd:usb1, eth0", "uhci_hcd:usb1, eth0"),
    ],
)
def test_rows_of_other_kernels(row: str, name: str) -> None:
    assert [it.words for it in parse(f"  CPU0  CPU1\n{row}\n", [ETH0])] == [name]


@pytest.mark.parametrize(
    "row", ["24: 1 0  PCI-MSI 1-edge      eth01-TxRx-0", "24: 1 0  PCI-MSI 1-edge      nvme0q1", "24:"]
)
def test_rows_of_others(row: str) -> None:
    assert parse(f"  CPU0  CPU1\n{row}\n", [ETH0]) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("\n", 1),
        ("CPU0 CPUx\n", 1),
        ("CPU0 CPU1\n 27:  1\n", 2),
        ("CPU0 CPU1\nNMI: x\n 27:  1   one  MSI  eth0\n", 3),
        ("CPU0\n 27:  " + "9" * 400 + "  MSI  eth0\n", 2),
        ("CPU0\n 27:  -1  MSI  eth0\n", 2),
        ("CPU0\n 27:\n", 2),
    ],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text, [ETH0]) == ("/proc/interrupts", line)


def test_cores() -> None:
    assert cores("0-2,7\n", "x") == [0, 1, 2, 7]
    assert cores("\n", "x") == []


def test_256_cores_are_one_quick_pass() -> None:
    cores = range(256)
    rows = [f"{irq:4}: {' '.join(str(irq * core) for core in cores)}  MSI  eth0-TxRx-{irq}" for irq in range(512)]
    rows += [f"{irq:4}: {' '.join('7' for _ in cores)}  MSI  nvme0q{irq}" for irq in range(512, 1200)]
    started = time.thread_time()
    found = parse(" ".join(f"CPU{core}" for core in cores) + "\n" + "\n".join(rows), [ETH0])
    assert time.thread_time() - started < 0.5
    assert len(found) == 512 and found[3].by_core[255] == 765


def test_more_than_we_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_irqs, "MOST", 1)
    host = virtio_node(tmp_path)
    assert len(told(nic_irqs, host)) == 3
    assert "2 interrupts more" in unseen(nic_irqs, host)["nic_interrupts_total"]


def test_no_card(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no network card"):
        list(nic_irqs.read(machine(tmp_path, {"proc/interrupts": VIRTIO, "sys/class/net/lo/": ""})))


def test_a_card_without_a_row(tmp_path: Path) -> None:
    host = virtio_node(tmp_path)
    (tmp_path / "proc/interrupts").write_text("  CPU0\n 24:  1  IO-APIC  5-edge  ACPI:Ged\n")
    assert told(nic_irqs, host) == {("nic_tx_timeouts_total", "nic:eth0"): 7}
    assert set(unseen(nic_irqs, host)) == {"nic_irq_cpu", "nic_interrupts_total"}


def test_a_driver_may_call_itself_anything(tmp_path: Path) -> None:
    host = virtio_node(tmp_path)
    (tmp_path / "proc/interrupts").write_bytes(VIRTIO.encode().replace(b"virtio2-input.0", b"\x1b[31m\xff"))
    assert any(isinstance(it, Reading) and "\x1b[31m\udcff" in it.text for it in nic_irqs.read(host))
