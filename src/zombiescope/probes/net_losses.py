"""What each network namespace lost or refused: full accept queues and buffers, TCP out of memory, bad checksums.

Overhead: two reads for each namespace, 60 µs each; at most `MOST` of them in a sample, in turns. Which namespaces
    there are is found every 20 to 60 s by one readlink for each process, 3 µs each and at most `WALKED` of them.
Kernel: net/ipv4/proc.c; the names are in include/uapi/linux/snmp.h, and those that a kernel lacks count as 0. The
    namespace of PID 1 is the node's. Which namespace a process is in can be read by root only. Of a pod's the text is
    the cgroup of its first process. TCP memory (tcp_mem) is shared by all namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.text import count, lines
from zombiescope.probes._process_waits import parse_group
from zombiescope.probes._remembering import remembered

EVERY = 6.0
# What we give, and the kernel's counters that it is the sum of: table and name.
_SUMS = {
    "net_accepts_refused_total": ("TcpExt.ListenOverflows",),
    "net_accepted_total": ("Tcp.PassiveOpens",),
    "net_tcp_dropped_total": ("TcpExt.TCPBacklogDrop", "TcpExt.TCPRcvQDrop", "TcpExt.RcvPruned", "TcpExt.OfoPruned"),
    "net_tcp_pruned_total": ("TcpExt.PruneCalled", "TcpExt.TCPRcvCollapsed"),
    "net_tcp_pressures_total": ("TcpExt.TCPMemoryPressures", "TcpExt.TCPAbortOnMemory"),
    "net_sends_refused_total": ("TcpExt.TCPWqueueTooBig",),
    "net_bad_checksums_total": ("Tcp.InCsumErrors", "Udp.InCsumErrors"),
    "net_segments_received_total": ("Tcp.InSegs",),
    "net_segments_sent_total": ("Tcp.OutSegs",),
    "net_retransmitted_total": ("Tcp.RetransSegs",),
    "net_udp_dropped_total": ("Udp.RcvbufErrors", "Udp.MemErrors"),
    "net_udp_received_total": ("Udp.InDatagrams",),
}
_WANTED = {  # names by table
    table: frozenset(
        name.partition(".")[2] for names in _SUMS.values() for name in names if name.startswith(f"{table}.")
    )
    for table in ("Tcp", "TcpExt", "Udp")
}
MEMORY = ("tcp_memory_pages", "tcp_memory_limit_pages")
GIVES = (*_SUMS, *MEMORY)
MOST = 50  # namespaces in a sample, 6 ms: 500 pods have all had a turn after 50 s
WALKED = 5_000  # processes asked for their namespace, 15 ms a minute
RENEWED = 60.0  # seconds: a new pod is seen a minute later at worst
_SOCKSTAT, _TCP_MEM = "/proc/1/net/sockstat", "/proc/sys/net/ipv4/tcp_mem"


@dataclass(slots=True)
class _Known:
    """The namespaces: by subject, a process in each and its cgroup."""

    spaces: dict[str, tuple[str, str]]
    why_not: str = ""  # why pods' namespaces are not known
    turn: list[str] = field(default_factory=list)  # those that had no turn yet in this round


def _spaces(host: Host) -> _Known:
    pids = sorted(host.pids(), key=lambda pid: (len(pid), pid))
    if not pids:
        raise Unreadable("/proc", "no process is visible")
    known = _Known({"node": ("1", "")})
    try:
        seen = {_of_node(host)}
    except Unreadable as error:
        known.why_not = error.why
        return known
    for pid in pids[:WALKED]:
        try:
            link = host.link(f"/proc/{pid}/ns/net")
            if link in seen:
                continue
            seen.add(link)
            known.spaces[f"netns:{link.removeprefix('net:[').rstrip(']')}"] = (
                pid,
                parse_group(host.read(f"/proc/{pid}/cgroup")),
            )
        except Unreadable:
            continue  # it has exited
    if len(pids) > WALKED:
        known.why_not = f"{len(pids) - WALKED:,} processes more than net_losses.WALKED were not asked"
    return known


def _of_node(host: Host) -> str:
    """The node's own namespace: of PID 1, or of kthreadd where PID 1's is closed even to root."""
    try:
        return host.link("/proc/1/ns/net")
    except Unreadable:
        return host.link("/proc/2/ns/net")


def _told(host: Host, known: _Known) -> Iterator[Reading | Blind]:
    at = host.now()
    if not known.turn:
        known.turn = [it for it in known.spaces if it != "node"]
    now, known.turn = ["node", *known.turn[: MOST - 1]], known.turn[MOST - 1 :]
    for subject in now:
        pid, cgroup = known.spaces[subject]
        source = f"/proc/{pid}/net/netstat"
        try:
            found = parse(host.read(source), source) | parse(
                host.read(f"/proc/{pid}/net/snmp"), f"/proc/{pid}/net/snmp"
            )
        except Unreadable:
            if subject == "node":
                raise
            continue  # its first process has exited: the next walk finds another
        for what, names in _SUMS.items():
            value = sum(found.get(name, 0) for name in names)
            yield Reading(what=what, subject=subject, value=value, at=at, source=source, text=cgroup)
    yield from _memory(host, at)
    if known.why_not:
        yield Blind(what=GIVES[0], source="/proc/PID/ns/net", why=known.why_not, subject="node")


watch, read = remembered(_spaces, _told, lambda: RENEWED)


def _memory(host: Host, at: float) -> Iterator[Reading | Blind]:
    try:
        pages = parse_sockstat(host.read(_SOCKSTAT)), parse_limit(host.read(_TCP_MEM))
        for what, value, source in zip(MEMORY, pages, (_SOCKSTAT, _TCP_MEM), strict=True):
            yield Reading(what=what, subject="node", value=value, at=at, source=source)
    except (Unreadable, Unparsable) as error:
        yield from (Blind(what=what, source=error.source, why=error.why) for what in MEMORY)


# TcpExt: SyncookiesSent ListenOverflows
# TcpExt: 0 12
def parse(text: str, source: str) -> dict[str, int]:
    """The counters that are summed, each by its table and name: the kernel has 300 more."""
    found: dict[str, int] = {}
    rows = lines(text)
    for number, (head, row) in enumerate(zip(rows[::2], rows[1::2], strict=False)):
        (table, width, wanted), values = _columns(head), row.split() or [""]
        if values[0] != table or len(values) != width:
            raise Unparsable(source, 2 * number + 1, head)
        try:
            digits = "".join(values[1:]).replace("-", "")  # some may be negative (MaxConn), none of ours
            if not digits.isascii() or not digits.isdecimal():
                raise ValueError
            for place, name in wanted:
                found[name] = count(values[place])
        except ValueError:
            raise Unparsable(source, 2 * number + 2, row) from None
    if not rows:
        raise Unparsable(source, 1, text)
    return found


@lru_cache(maxsize=16)  # the kernel always writes the same ones
def _columns(head: str) -> tuple[str, int, tuple[tuple[int, str], ...]]:
    """The first word of a line of names, how many words it has, and where those are that are summed."""
    words = head.split() or [""]
    table = words[0].rstrip(":")
    wanted = _WANTED.get(table, frozenset())
    return words[0], len(words), tuple((at, f"{table}.{it}") for at, it in enumerate(words[1:], 1) if it in wanted)


# TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 33
def parse_sockstat(text: str) -> int:
    """Pages that TCP uses, in all namespaces together."""
    for line in lines(text):
        words = line.split()
        if words[:1] == ["TCP:"] and "mem" in words[:-1]:
            try:
                return count(words[words.index("mem") + 1])
            except ValueError:
                break
    raise Unparsable(_SOCKSTAT, 1, text)


# 287832	383779	575664
def parse_limit(text: str) -> int:
    """The last of three: above it nothing more is received."""
    try:
        return count(text.split()[2])
    except (ValueError, IndexError):
        raise Unparsable(_TCP_MEM, 1, text) from None
