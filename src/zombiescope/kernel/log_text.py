r"""A saved kernel log: parse what dmesg, journalctl and syslog print into lines with their times.

    [12345.678901] text                          dmesg; also -r and -x, and with the caller printed
    [Thu Nov 12 15:12:04 2026] text              dmesg -T
    2026-11-12T15:12:04,123456+00:00 text        dmesg --time-format iso
    2026-11-12T15:12:04+0000 host kernel: text   journalctl -o short-iso, -o short-iso-precise, today's syslog
    Nov 12 15:12:04 host kernel: text            journalctl -o short, -o short-precise
    Nov 12 15:12:04 host kernel: [12345.6] text  kern.log
    [12345.678901] host kernel: text             journalctl -o short-monotonic
    1762960324.123456 host kernel: text          journalctl -o short-unix
    Thu 2026-11-12 15:12:04 UTC host kernel: text  journalctl -o short-full, -o with-unit
    6,339,5140900,-;text                         a copy of /dev/kmsg

Before the time there may be what a console, a container's log or printk itself puts there (_BEFORE). Entries of fields
(journalctl -o json, export, verbose; Docker's files) are read by log_records; dmesg -H and -J and dumps of pstore are
put into dmesg's own form first by log_retold. Text without any time, as `dmesg -t` and
`journalctl -o cat` print, is taken if it is clearly the kernel's; of it only the order is known.

Times without a zone are taken as this machine's zone, times without a year as the last such day before the log ended,
and times since boot as if the last line was written when the log ended.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from zombiescope.core import Unparsable
from zombiescope.kernel.kmsg import Line, parse
from zombiescope.kernel.log_records import Record, records
from zombiescope.kernel.log_retold import retold
from zombiescope.kernel.text import lines

LEVEL = 6  # where the line has none: "informational", so that no finding is based on it
TRIED = 500  # lines by which a format is recognised: a log may begin with lines that are cut off
LEAST = 4  # one line of so many must have a time: a console also has what programs print while they start
DAY = 86_400.0  # seconds that a line may seem later than the log's end: another zone, a clock set back
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "|".join(_MONTHS)
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:(?P<separator>[.,])(?P<fraction>\d{1,9}))?"
# dmesg -r and syslog's own protocol have a number, dmesg -x has names.
_LEVELLED = r"(?:<(?P<priority>\d{1,3})>(?:1 )?|(?P<facility>[a-z0-9]{2,9}) *:(?P<level>[a-z]{3,7}) *: ?)?"
_HEADS = {
    "/dev/kmsg": r"(?=\d{1,4},\d{1,20},(?P<usec>\d{1,20})[,;])",
    "dmesg": rf"{_LEVELLED}\[ *(?P<boot>\d{{1,12}}\.\d{{1,9}})(?: *<[ +\d.]{{1,24}}>)?\](?:\[ *[TC]\d+\])? ?",
    "dmesg -T": rf"{_LEVELLED}\[\w{{3}} (?P<month>{_MONTH}) +(?P<day>\d{{1,2}}) {_CLOCK} (?P<year>\d{{4}})\] ?",
    "ISO 8601": rf"{_LEVELLED}(?P<year>\d{{4}})-(?P<number>\d\d)-(?P<day>\d\d)T{_CLOCK}(?P<zone>Z|[+-]\d\d:?\d\d)? ",
    "syslog": rf"{_LEVELLED}(?P<month>{_MONTH}) +(?P<day>\d{{1,2}}) {_CLOCK} ",
    "journalctl -o short-full": rf"\w{{3}} (?P<year>\d{{4}})-(?P<number>\d\d)-(?P<day>\d\d) {_CLOCK} "
    r"(?:(?P<zone>UTC|GMT|[+-]\d\d:?\d\d)|[A-Z]{2,5}|[+-]\d\d) ",
    "journalctl -o short-unix": r"(?P<unix>\d{9,10}\.\d{1,9}) (?=\S{1,255} [^\s:]{1,64}: )",
}
# What may stand before a line's own time: escapes of a terminal, a login prompt, the note of printk that it dropped
# lines, the prefixes of `kubectl logs`, of a container runtime's file, of a console server.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]|[\x00\r]")
_BEFORE = re.compile(
    r"(?:\[(?:pod|container)/[^\]\s]{1,400}\] |"
    r"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:?\d\d) (?:(?:stdout|stderr) [FP] |"
    r"(?=(?:<\d{1,3}>)?\[ *\d{1,12}\.\d))|\S{1,64} login: |\*\* \d{1,9} printk messages dropped \*\* ?|"
    r"\[\d{4}-\d\d-\d\d[ T][\d:.,]{8,16}Z?\] ?(?=(?:<\d{1,3}>)?\[ *\d)){1,8}",
    re.ASCII,
)
# A text without times is the kernel's if one of its lines is one of these.
_KERNELS_OWN = re.compile(
    r"Linux version \d|Command line: |Memory cgroup out of memory|Out of memory: Kill|oom-kill:constraint=|"
    r"\w{2,20} [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7][: ]|NETDEV WATCHDOG: |"
    r".{0,40}BUG: soft lockup|INFO: task .{1,64} blocked|"
    r"rcu: INFO: |CPU: \d{1,4} (?:UID: \d{1,10} )?PID: \d|Call Trace:|nf_conntrack: ",
    re.ASCII,
)
_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
# The host's name, the writer, and for the kernel sometimes its own time.
_WRITER = re.compile(
    r"\S{1,255} (?:[a-z0-9]{2,9}\.[a-z]{3,7} )?(?P<who>[^\s:\[\]]{1,64})(?:(?:\[\d{1,10}\])?: |(?: \S{1,128}){2} - )"
    r"(?:\[ *\d{1,12}\.\d{6}\] )?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LogText:
    """The lines of a log in the order of their times, which format it is, and how the times were found."""

    lines: list[Line]  # numbered as in the text, from 1
    format: str
    clock: str


@dataclass(frozen=True, slots=True)
class _Raw:
    number: int
    head: dict[str, str | None]
    text: str


def parse_log(text: str, *, ended: float, of: Callable[[str], bool] = lambda _who: True) -> LogText:
    """The lines of a log that ended (was last written) at `ended`, in unix seconds.

    Where lines name their writer, `of` selects. A line without a time, such as journalctl's "-- Boot …", is left out.
    """
    every = lines(text.removeprefix("\ufeff"))
    if (plain := retold(every)) is not None:
        every, ended = plain.lines, plain.ended or ended
    if (told := records(every)) is not None:
        return _of_records(*told, ended, of)
    name, head = _format(every)
    if head is None:
        return _untimed(every, ended)
    raws = [raw for number, line in enumerate(every, 1) if (raw := _raw(number, line, head)) is not None]
    if name == "/dev/kmsg":
        return LogText(list(_dated([_record(raw) for raw in raws], ended)), name, _COUNTED)
    if _written_by_many(name, raws):
        raws = list(_without_writer(raws, of))
    if name == "dmesg":
        since_boot = [Line(_level(raw), raw.number, float(raw.head["boot"] or 0), raw.text) for raw in raws]
        return LogText(list(_dated(since_boot, ended)), name, _COUNTED)
    if name == "syslog":
        dated = list(_with_years(raws, ended))
        clock = "times as written, in this machine's zone; the year is the last such day before the log ended"
    else:
        dated = [(raw, at) for raw in raws if (at := _moment(raw.head)) is not None]
        zoned = any(raw.head.get("zone") for raw in raws[:1])
        clock = "times as written" + ("" if zoned else ", in this machine's zone")
    return LogText([Line(_level(raw), raw.number, at, raw.text) for raw, at in dated], name, clock)


def _raw(number: int, line: str, head: re.Pattern[str]) -> _Raw | None:
    """A line's head and text; if it has none, once more without what others put before it."""
    found = head.match(line)
    if found is None:
        line = cleaned(line)
        found = head.match(line)
    return None if found is None else _Raw(number, found.groupdict(), line[found.end() :])


def cleaned(line: str) -> str:
    """Without what a console, a container's log or printk put before it."""
    if "\x1b" in line or "\r" in line or "\x00" in line:
        line = _ESCAPES.sub("", line)
    found = _BEFORE.match(line)
    return line if found is None else line[found.end() :]


def _of_records(name: str, told: list[Record], ended: float, of: Callable[[str], bool]) -> LogText:
    """Entries of fields. Those without a writer are the lines of another log, which may have times of its own."""
    if not any(it.who for it in told):
        inner = [cleaned(it.text).replace("\n", " ") for it in told]
        kind, head = _format(inner)
        if head is not None:
            within = parse_log("\n".join(inner), ended=ended, of=of)
            return LogText(within.lines, f"{name} of {kind}", within.clock)
        return LogText([Line(it.level, it.number, it.at, it.text) for it in told], name, "times as written")
    found = [
        Line(it.level, it.number, it.at, it.text if it.who == "kernel" else f"{it.who}{_pid(it.pid)}: {it.text}")
        for it in told
        if it.who and of(it.who)
    ]
    return LogText(sorted(found, key=lambda it: it.at), name, "times as written")


def _pid(pid: str) -> str:
    return f"[{pid}]" if pid else ""


def _untimed(every: list[str], ended: float) -> LogText:
    """Only the order is known: the lines are put a microsecond apart, the last when the log ended."""
    told = [(number, text) for number, line in enumerate(every, 1) if (text := cleaned(line)).strip()]
    first = ended - len(told) * 1e-6
    found = [Line(LEVEL, number, first + place * 1e-6, text) for place, (number, text) in enumerate(told, 1)]
    return LogText(found, "text without times", "no times in it: only the order of its lines is known")


_COUNTED = "times counted back from the log's end: its last line is taken to be from that moment"


def _format(every: list[str]) -> tuple[str, re.Pattern[str] | None]:
    """The format of most lines; None if they have no times but are the kernel's. Otherwise it is not a log."""
    tried = [line for line in every[:TRIED] if line.strip() and not line.startswith((" ", "-- "))]
    bare = [cleaned(line) for line in tried]
    counted = []
    for name, pattern in _HEADS.items():
        head = re.compile(pattern, re.ASCII)
        matched = sum(
            head.match(line) is not None or head.match(it) is not None for line, it in zip(tried, bare, strict=True)
        )
        counted.append((matched, name, head))
    count, name, head = max(counted, key=lambda it: it[0])
    if count and count * LEAST >= len(tried):
        return name, head
    if any(_KERNELS_OWN.match(line) for line in bare):
        return "", None
    raise Unparsable("the log", 1, every[0] if every else "")


def _written_by_many(name: str, raws: list[_Raw]) -> bool:
    """Whether the lines name a host and a writer: those of syslog and the journal do, those of dmesg do not."""
    writers = [found["who"] for raw in raws[:TRIED] if (found := _WRITER.match(raw.text))]
    if name == "dmesg":
        return "kernel" in writers
    if name == "syslog" or name.startswith("journalctl") or (name == "ISO 8601" and raws[0].head["separator"] != ","):
        if not writers:
            raise Unparsable("the log", raws[0].number, raws[0].text)
        return True
    return False


def _record(raw: _Raw) -> Line:
    line = parse(raw.text, raw.number)
    return Line(line.level, raw.number, line.at, line.text)


def _level(raw: _Raw) -> int:
    if priority := raw.head.get("priority"):
        return int(priority) & 7
    level = raw.head.get("level")
    return _LEVELS.index(level) if level in _LEVELS else LEVEL


def _without_writer(raws: list[_Raw], of: Callable[[str], bool]) -> Iterator[_Raw]:
    """Lines of the kernel unchanged; lines of a program with its name in front."""
    for raw in raws:
        writer = _WRITER.match(raw.text)
        if writer is None or not of(writer["who"]):
            continue
        begin = writer.end() if writer["who"] == "kernel" else writer.start("who")
        yield _Raw(raw.number, raw.head, raw.text[begin:])


def _dated(found: list[Line], ended: float) -> Iterator[Line]:
    """Convert seconds since boot to unix time. Where they fall back, the machine was rebooted: the boot before ended,
    at the latest, when the next one began."""
    offset, later = 0.0, float("inf")
    dated = []
    for line in reversed(found):
        if later == float("inf"):
            offset = ended - line.at
        elif line.at > later + 1.0:  # lines of two cores may be in the wrong order by a little
            offset -= line.at
        later = line.at
        dated.append(Line(line.level, line.number, line.at + offset, line.text))
    return reversed(dated)


def _with_years(raws: list[_Raw], ended: float) -> Iterator[tuple[_Raw, float]]:
    """From the end backwards: a line that would be later than the one after it is from the year before."""
    dated: list[tuple[_Raw, float]] = []
    year, later = datetime.fromtimestamp(ended).year, ended
    for raw in reversed(raws):
        at = _moment(raw.head, year)
        if at is not None and at > later + DAY:
            year -= 1
            at = _moment(raw.head, year)
        if at is None:  # the 29th of February of a year that has none
            continue
        later = at
        dated.append((raw, at))
    return reversed(dated)


def _moment(head: dict[str, str | None], year: int = 0) -> float | None:
    """The time in a line's head, in unix seconds; None if there is no such day."""
    if unix := head.get("unix"):
        return float(unix)
    month = _MONTHS.index(head["month"] or "") + 1 if "month" in head else int(head["number"] or 0)
    clock = (head["day"] or "", head["hour"] or "", head["minute"] or "", head.get("zone") or "")
    minute = _minute(int(head.get("year") or year), month, *clock)
    fraction = float(f"0.{head['fraction']}") if head["fraction"] else 0.0
    return None if minute is None else minute + int(head["second"] or 0) + fraction


@functools.lru_cache(maxsize=4_096)
def _minute(year: int, month: int, day: str, hour: str, minute: str, zone: str) -> float | None:
    """The start of a minute. A log has many lines of the same minute, and calendar functions are slow."""
    try:
        at = datetime(year, month, int(day), int(hour), int(minute))
        if not zone:
            return at.timestamp()
        digits = zone.replace(":", "").replace("Z", "+0000").replace("UTC", "+0000").replace("GMT", "+0000")
        east = timedelta(hours=int(digits[1:3]), minutes=int(digits[3:]))
        return at.replace(tzinfo=timezone(-east if digits[0] == "-" else east)).timestamp()
    except (ValueError, OverflowError):
        return None
