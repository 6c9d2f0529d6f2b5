"""Tables of the kernel that can be full: threads, file handles, AIO requests, neighbours, IPv6 routes, users' keys.

Overhead: fourteen reads of a number or a few rows, 10 µs each.
Kernel: Documentation/admin-guide/sysctl/fs.rst, kernel.rst and net.rst. Threads in use are in /proc/loadavg.
    Neighbours are counted for all network namespaces together (neigh_table of net/core/neighbour.c), one row a core,
    in hexadecimal; only the column table_fulls counts refusals. /proc/key-users shows the users of the reader's user
    namespace. The limit of IPv6 routes has no effect since af6d10345ca7 (in v6.3), which then reads as 2147483647.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from zombiescope.core import Blind, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import Samples, reading, text_of, unpacked
from zombiescope.kernel.text import count, lines, only_count

EVERY = 6.0
USED, LIMIT, REFUSED = "table_used", "table_limit", "table_refused_total"
GIVES = (USED, LIMIT, REFUSED)
USERS = 50  # users whose keys are reported, those with most first
_LOADAVG, _FILE_NR, _KEYS, _ROUTES = "/proc/loadavg", "/proc/sys/fs/file-nr", "/proc/key-users", "/proc/net/rt6_stats"
_THREADS = ("/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max")
_AIO = ("/proc/sys/fs/aio-nr", "/proc/sys/fs/aio-max-nr")
_MAX_SIZE = "/proc/sys/net/ipv6/route/max_size"
_NEIGHBOURS = {
    "IPv4 neighbours": ("/proc/net/stat/arp_cache", "/proc/sys/net/ipv4/neigh/default/gc_thresh3"),
    "IPv6 neighbours": ("/proc/net/stat/ndisc_cache", "/proc/sys/net/ipv6/neigh/default/gc_thresh3"),
}
_FIXED = (_LOADAVG, *_THREADS, _FILE_NR, *_AIO, _KEYS, _ROUTES, _MAX_SIZE)
FILES = (*_FIXED, *(path for pair in _NEIGHBOURS.values() for path in pair))
_Parts = dict[str, bytes | Unreadable]
_Row = tuple[str, str, float, str]


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, content in samples:
        yield from _sample(at, dict(zip(FILES, unpacked(content, FILES), strict=True)))


read = reading(FILES, readings)


def _sample(at: float, parts: _Parts) -> Iterator[Reading | Blind]:
    missed: list[Unreadable | Unparsable] = []
    told = 0
    for table in _TABLES:
        try:
            found = list(table(parts))
        except (Unreadable, Unparsable) as error:
            missed.append(error)
            continue
        for what, name, value, source in found:
            told += 1
            yield Reading(what=what, subject=f"table:{name}", value=value, at=at, source=source)
    if not told:
        raise missed[0]
    for it in missed:
        if isinstance(it, Unparsable):  # a kernel without AIO, keys or IPv6 has no such file
            yield Blind(what=USED, source=it.source, why=it.why, subject="node")


def _threads(parts: _Parts) -> Iterator[_Row]:
    yield USED, "threads", parse_threads(text_of(parts[_LOADAVG])), _LOADAVG
    limit, source = min((only_count(text_of(parts[path]), path), path) for path in _THREADS)
    yield LIMIT, "threads", limit, source


def _handles(parts: _Parts) -> Iterator[_Row]:
    used, limit = parse_handles(text_of(parts[_FILE_NR]))
    yield USED, "file handles", used, _FILE_NR
    yield LIMIT, "file handles", limit, _FILE_NR


def _requests(parts: _Parts) -> Iterator[_Row]:
    for what, source in zip((USED, LIMIT), _AIO, strict=True):
        yield what, "AIO requests", only_count(text_of(parts[source]), source), source


def _routes(parts: _Parts) -> Iterator[_Row]:
    yield USED, "IPv6 routes", parse_routes(text_of(parts[_ROUTES])), _ROUTES
    yield LIMIT, "IPv6 routes", only_count(text_of(parts[_MAX_SIZE]), _MAX_SIZE), _MAX_SIZE


def _keys(parts: _Parts) -> Iterator[_Row]:
    users = parse_keys(text_of(parts[_KEYS]))
    for uid, (used, limit) in sorted(users.items(), key=lambda it: -it[1][0])[:USERS]:
        yield USED, f"keys of user {uid}", used, _KEYS
        yield LIMIT, f"keys of user {uid}", limit, _KEYS


def _neighbours(name: str, parts: _Parts) -> Iterator[_Row]:
    table, limit = _NEIGHBOURS[name]
    used, refused = parse_neighbours(text_of(parts[table]), table)
    yield USED, name, used, table
    yield REFUSED, name, refused, table
    yield LIMIT, name, only_count(text_of(parts[limit]), limit), limit


_TABLES: tuple[Callable[[_Parts], Iterator[_Row]], ...] = (
    *(_threads, _handles, _requests, _routes, _keys),
    *(partial(_neighbours, name) for name in _NEIGHBOURS),
)


# 0.15 0.07 0.02 2/78 2028
def parse_threads(text: str) -> int:
    try:
        return count(text.split()[3].partition("/")[2])
    except (ValueError, IndexError):
        raise Unparsable(_LOADAVG, 1, text) from None


# 1632	0	9223372036854775807
def parse_handles(text: str) -> tuple[int, int]:
    try:
        used, free, limit = map(count, text.split())
        return used - free, limit
    except ValueError:
        raise Unparsable(_FILE_NR, 1, text) from None


# entries  allocs   destroys hash_grows lookups  hits     res_failed … table_fulls
# 00000002 00000000 00000000 00000000   00000000 00000000 00000000   … 00000000
def parse_neighbours(text: str, source: str) -> tuple[int, int]:
    """Entries, the same in every row, and refusals, to be added up. Before 4.3 refusals were not counted."""
    head, *rows = (line.split() for line in lines(text) or [""])
    try:
        entries, fulls = head.index("entries"), head.index("table_fulls") if "table_fulls" in head else None
        used = max(count(row[entries], 16) for row in rows)
        return used, sum(count(row[fulls], 16) for row in rows) if fulls is not None else 0
    except (ValueError, IndexError):
        raise Unparsable(source, 1, text) from None


# 0009 0006 000d 0007 0000 0000 0000
def parse_routes(text: str) -> int:
    """The sixth number: entries that count against the limit (rt6_stats_seq_show in net/ipv6/route.c)."""
    try:
        return count(text.split()[5], 16)
    except (ValueError, IndexError):
        raise Unparsable(_ROUTES, 1, text) from None


#     0:     9 8/8 3/1000000 40/25000000
def parse_keys(text: str) -> dict[int, tuple[int, int]]:
    """By user: keys that count against the quota, and the quota; of keys or of bytes, whichever is nearer to full."""
    found = {}
    for number, line in enumerate(lines(text), 1):
        try:
            uid, _, rest = line.partition(":")
            _usage, _keys, keys, size = rest.split()
            pairs = [tuple(map(count, it.split("/"))) for it in (keys, size)]
            found[count(uid.strip())] = max(
                ((used, limit) for used, limit in pairs), key=lambda it: it[0] / max(it[1], 1)
            )
        except ValueError:
            raise Unparsable(_KEYS, number, line) from None
    return found
