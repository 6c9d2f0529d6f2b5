"""Give a NIC's NAPI threads real-time priority, or take it away, as a separate command.

    python -m zombiescope.treatment.napi_command thread|raise|lower NIC PRIORITY

`thread` switches threaded NAPI on first: the threads exist only then, so no earlier command could name them. `raise`
does not, and refuses where it is off: that threads are named after a card does not say that they are of this one, since
a container may have a card of the same name. Threads that already have a real-time priority are left alone; `lower`
changes only threads of the given priority.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping

from zombiescope.core import Host, Unreadable, harmless

CHILDREN = "/proc/2/task/2/children"  # kernel threads are the children of kthreadd
CUT = 15  # characters of a thread's name before v5.17


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="napi_command", description=__doc__)
    parser.add_argument("what", choices=("thread", "raise", "lower"))
    parser.add_argument("nic")
    parser.add_argument("priority", type=int, choices=range(1, 100), metavar="PRIORITY")
    args = parser.parse_args(argv)
    try:
        if args.what == "lower":
            done = lowered(args.nic, args.priority)
        else:
            done = raised(args.nic, args.priority, switch_on=args.what == "thread")
    except (OSError, Unreadable) as error:
        print(harmless(str(error)), file=sys.stderr)
        return 1
    print("\n".join(map(harmless, done)))
    return 0


def raised(nic: str, priority: int, *, switch_on: bool) -> list[str]:
    threads(nic)  # threads of normal priority are worse than none: if they cannot be found, nothing is switched on
    path = f"/sys/class/net/{nic}/threaded"
    if switch_on:
        with open(path, "w") as switch:
            switch.write("1")
    elif Host().read(path).strip() == "0":
        raise Unreadable(path, f"{nic} is not polled by threads: those of its name are another card's")
    found = threads(nic)
    if not found:
        raise Unreadable(CHILDREN, f"{nic} has no NAPI thread")
    return above(found, priority)


def above(threads: Mapping[int, str], priority: int) -> list[str]:
    """Gives these real-time priority, unless they have one."""
    said = []
    for pid, name in threads.items():
        if (policy := os.sched_getscheduler(pid)) in (os.SCHED_FIFO, os.SCHED_RR):
            said.append(f"{name}[{pid}] already has real-time priority {os.sched_getparam(pid).sched_priority}")
            continue
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(priority))
        said.append(f"{name}[{pid}]: SCHED_FIFO {priority}, was policy {policy}")
    return said


def lowered(nic: str, priority: int) -> list[str]:
    return back(threads(nic), priority) or [f"{nic} has no NAPI thread with priority {priority}"]


def back(threads: Mapping[int, str], priority: int) -> list[str]:
    """Takes it from those that have just this one: what others gave is not ours to take."""
    said = []
    for pid, name in threads.items():
        if os.sched_getscheduler(pid) == os.SCHED_FIFO and os.sched_getparam(pid).sched_priority == priority:
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
            said.append(f"{name}[{pid}]: SCHED_OTHER")
    return said


def threads(nic: str) -> dict[int, str]:
    """Its NAPI threads by pid. Newer kernels stop them when threaded NAPI is off; then there are none."""
    host, found = Host(), {}
    for pid in host.read(CHILDREN).split():
        try:
            name = host.read(f"/proc/{pid}/comm").removesuffix("\n")
        except Unreadable:
            continue  # it has exited
        if serves(name, nic):
            found[int(pid)] = name
    return found


# napi/eth0-8193
def serves(thread: str, nic: str) -> bool:
    head = f"napi/{nic}-"
    if len(thread) == CUT and len(head) >= CUT:
        return head.startswith(thread)
    return re.fullmatch(re.escape(head) + r"\d+", thread) is not None


if __name__ == "__main__":
    sys.exit(main())
