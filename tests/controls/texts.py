"""The columns of a generated node in the kernel's own formats, as the files stood at one look."""

from __future__ import annotations

from tests.controls.generated import Node

from zombiescope.probes.proc_stat import MODES
from zombiescope.probes.softirqs import KINDS

_COUNTS = {"ctxt": "context_switches_total", "processes": "forks_total"}
_COUNTS |= {"procs_running": "procs_running", "procs_blocked": "procs_blocked"}


def texts(node: Node, pace: int, look: int) -> dict[str, str]:
    """By path: what is read at this pace, of a second or two."""
    if pace == 1:
        return {"/proc/stat": _stat(node, look), **_schedstat(node, look)}
    return {
        "/proc/softirqs": _softirqs(node, look),
        "/proc/net/softnet_stat": _softnet(node, look),
        "/proc/vmstat": _vmstat(node, look),
        **{f"/proc/pressure/{kind}": _pressure(node, kind, look) for kind in ("cpu", "io", "memory", "irq")},
    }


def _value(node: Node, what: str, subject: str, look: int, unit: float = 1.0) -> int:
    return round(float(node.columns[what][subject][1][look]) / unit)


def _stat(node: Node, look: int) -> str:
    cores = [
        f"cpu{cpu} " + " ".join(str(_value(node, f"cpu_{it}_seconds_total", f"cpu:{cpu}", look, 0.01)) for it in MODES)
        for cpu in range(node.cores)
    ]
    counts = [f"{name} {_value(node, what, 'node', look)}" for name, what in _COUNTS.items()]
    return "\n".join(["cpu  1 2 3 4 5 6 7 8 0 0", *(f"{it} 0 0" for it in cores), "intr 8885917 17 0", *counts]) + "\n"


def _schedstat(node: Node, look: int) -> dict[str, str]:
    return {
        subject: " ".join(
            str(_value(node, f"thread_{it}_seconds_total", subject, look, 1e-9)) for it in ("run", "run_delay")
        )
        + " 56\n"
        for subject in node.columns["thread_run_seconds_total"]
    }


def _softirqs(node: Node, look: int) -> str:
    head = " " * 10 + "".join(f"{f'CPU{cpu}':>11}" for cpu in range(node.cores))
    rows = [
        f"{kind:>9}:"
        + "".join(
            f"{_value(node, f'softirqs_{kind.lower()}_total', f'cpu:{cpu}', look):>11}" for cpu in range(node.cores)
        )
        for kind in KINDS
    ]
    return "\n".join([head, *rows]) + "\n"


def _softnet(node: Node, look: int) -> str:
    rows = []
    for cpu in range(node.cores):
        first = [_value(node, f"softnet_{it}_total", f"cpu:{cpu}", look) for it in ("processed", "dropped", "squeezed")]
        rows.append(" ".join(f"{it:08x}" for it in (*first, *[0] * 9, cpu)))
    return "\n".join(rows) + "\n"


def _vmstat(node: Node, look: int) -> str:
    names = [what for what in node.columns if what.startswith("vmstat_")]
    return "".join(f"{what[7:-6]} {_value(node, what, 'node', look)}\n" for what in names)


def _pressure(node: Node, kind: str, look: int) -> str:
    averages, rows = "avg10=0.00 avg60=0.00 avg300=0.00", []
    for row, word in (("some", "waiting"), ("full", "stalled")):
        what = f"pressure_{kind}_{word}_seconds_total"
        total = _value(node, what, "node", look, 1e-6) if "node" in node.columns.get(what, {}) else 0
        rows += [f"{row} {averages} total={total}"] if (kind, row) != ("irq", "some") else []
    return "\n".join(rows) + "\n"
