"""A probe: it gives what it promises, and says what is missing on an empty machine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType

from zombiescope.conformance._complaint import Complaint, parameters
from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import fetching
from zombiescope.members.rooms import healthy

_SOURCES = ("/", "$ ")  # what can be pasted into a shell


def check(name: str, probe: ModuleType) -> Iterator[Complaint]:
    yield from parameters(probe, "read", ["host"])
    for what in probe.GIVES:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", what):
            yield Complaint(says=f"it gives {what!r}", mend="small letters, digits and _", about="GIVES")
    for other, it in healthy("probes").items():
        if other != name and (both := set(probe.GIVES) & set(it.GIVES)):
            mend = "give it a name of its own: two readings of one name would be one series"
            yield Complaint(says=f"it gives {min(both)}, which {other} gives", mend=mend, about="GIVES")
    if hasattr(probe, "FILES"):
        yield from parameters(probe, "readings", ["samples"])
        yield from _fetched(probe)
    yield from _where_nothing_is(probe)
    yield from _here(probe)


def _where_nothing_is(probe: ModuleType) -> Iterator[Complaint]:
    with tempfile.TemporaryDirectory(prefix="zombiescope-empty-") as folder:
        try:
            list(probe.read(Host(folder, live=False)))
        except Unreadable as error:
            if not error.source.startswith(_SOURCES) or not error.why:
                mend = "raise Unreadable with the path as the machine names it, or $ and the command"
                yield Complaint(says=f"what it misses it calls {error.source!r}", mend=mend, about="read")
        else:
            mend = "let host.read raise Unreadable: nothing read must not look like nothing wrong"
            yield Complaint(says="a machine without its file is not noticed", mend=mend, about="read")


def _fetched(probe: ModuleType) -> Iterator[Complaint]:
    """Fetched and parsed later, it must give what it gives when it is read."""
    for path in probe.FILES:
        if not path.startswith("/"):
            yield Complaint(says=f"it names the file {path!r}", mend="a path as the machine names it", about="FILES")
            return
    host = Host()
    try:
        with fetching(host, probe.FILES) as fetch:
            later = [it.what for it in probe.readings([(host.now(), fetch())])]
        now = [it.what for it in probe.read(host)]
    except (Unreadable, Unparsable):
        return
    if set(later) != set(now):
        mend = "read = reading(FILES, readings): one parser for both"
        yield Complaint(says="its readings of fetched files are not what it reads", mend=mend, about="readings")


def _here(probe: ModuleType) -> Iterator[Complaint]:
    """On this machine, if it can be read here at all."""
    try:
        with probe.watch(Host()) if hasattr(probe, "watch") else nullcontext(lambda: probe.read(Host())) as eye:
            seen = list(eye())
    except Unreadable:
        return
    for item in seen:
        if not isinstance(item, Reading | Blind):
            yield Complaint(says=f"it yields {item!r}", mend="yield Reading or Blind", about="read")
            return
        if item.what not in probe.GIVES:
            yield Complaint(says=f"it yields {item.what}", mend="name it in GIVES", about="GIVES")
            return
        if not item.source.startswith(_SOURCES):
            mend = "a source can be pasted into a shell: a path, or $ and a command"
            yield Complaint(says=f"its source is {item.source!r}", mend=mend, about="read")
            return
        if isinstance(item, Reading) and item.subject != "node" and not re.match(r"[a-z]+:.", item.subject):
            mend = 'a subject is "node" or "kind:name", such as "cpu:3"'
            yield Complaint(says=f"its subject is {item.subject!r}", mend=mend, about="read")
            return
