"""Programs wait for a file system's journal or for pages to be written: more was written than the disk takes.

Why it hurts: all writers of a file system share its journal, so one fsync waits for everybody's data. Unmounting a
    container's layer writes the whole disk's dirty pages first; a log that is appended, or a page that is touched
    while it is being written, waits as well. Daemons stand still for minutes and look dead.
False alarms: a backup, a database checkpoint or one fsync of a large file waits too, below a few seconds. Two
    programs at once, or one for ten seconds, is more than that.
References: mm/page-writeback.c; fs/jbd2/commit.c; fs/overlayfs/super.c, ovl_sync_fs;
    Documentation/admin-guide/sysctl/vm.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Finding, Reading, amount, harmless, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.blocked import SECONDS, Sleeper, covering, sleepers, unknown
from zombiescope.derived.threads import unread_threads
from zombiescope.derived.writers import writer

# Scale: seconds of one task, and tasks that wait for the same journal: neither grows with the node.
NEEDS = (SECONDS,)
LONG = 10.0  # seconds for one: a healthy disk writes a gigabyte in that time
PILE = 2  # waiting together: they wait for something shared
PILED = 4.0  # seconds for them: from one sample to the next
NAMED = 4  # tasks named in a sentence
_PAGE = 4096
# Where a task sleeps while it waits for writing: /proc/PID/wchan, a piece of the name.
_WAITS = {
    "jbd2_log_wait_commit": "the journal",
    "jbd2_journal_commit": "the journal",
    "wait_transaction_locked": "the journal",
    "add_transaction_credits": "the journal",
    "xlog_": "the journal",
    "xfs_log_force": "the journal",
    "folio_wait_writeback": "pages that are being written",
    "wait_on_page_writeback": "pages that are being written",
    "folio_wait_stable": "pages that are being written",
    "wb_wait_for_completion": "a sync of the file system",
    "sync_inodes_sb": "a sync of the file system",
    "balance_dirty_pages": "fewer dirty pages",
    "writeback_inodes_wb": "pages that are being written",
}
# folio_wait_writeback() is often inlined, and its caller is then this one (mm/filemap.c); the names that go on
# (folio_wait_bit_killable, …) are waits for a page to be read.
_PAGE_BIT = ("folio_wait_bit", "wait_on_page_bit")


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    waiting = _waiting(timeline, PILED)
    if len(waiting) >= PILE or any(it.span.seconds >= LONG for it in waiting):
        yield _finding(timeline, waiting)
    yield from unknown(timeline, least=LONG)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    waiting = _waiting(timeline, 0.0)
    dirty = tuple(timeline.latest("dirty_pages"))
    longest = lasting(waiting[0].span.seconds) if waiting else "0 s"
    unread = next(iter(unread_threads(timeline)), None)
    more = f"; {unread.why}" if unread is not None else ""
    return f"the longest wait for writing took {longest}{more}", (timeline.looks(SECONDS).latest, *dirty)


def _waiting(timeline: Timeline, least: float) -> list[Sleeper]:
    """Who waits for writing, the longest first; for a page's bit only where pages were being written."""
    writing = timeline.series("writeback_pages")
    bits = _PAGE_BIT if len(writing) and float(writing.values.max()) > 0 else ()
    found = sleepers(timeline, *_WAITS, *bits, least=least)
    return [it for it in found if it.where in bits or any(name in it.where for name in _WAITS)]


def _finding(timeline: Timeline, waiting: list[Sleeper]) -> Finding:
    span = covering(waiting)
    names = ", ".join(harmless(it.subject.partition(":")[2]) for it in waiting[:NAMED])
    what = next((words for name, words in _WAITS.items() if name in waiting[0].where), _WAITS["folio_wait_writeback"])
    dirty, limit = (timeline.series(name).between(span) for name in ("dirty_pages", "dirty_pages_limit"))
    pages = [dirty.latest, limit.latest] if len(dirty) and len(limit) and limit.latest.value else []
    much = ""
    if pages:
        share = percent(pages[0].value / pages[1].value)
        much = f"; {amount(pages[0].value * _PAGE)} wait to be written, {share} of what the kernel allows"
    most = writer(timeline, span)
    return Finding(
        subject="node",
        span=span,
        says=(
            f"has {len(waiting)} task{'s' if len(waiting) != 1 else ''} waiting for {what} for up to "
            f"{lasting(waiting[0].span.seconds)}: {names}{much}{most.words if most else ''}"
        ),
        evidence=(*(it.reading for it in waiting[:NAMED]), *pages, *(most.evidence if most else ())),
        culprit=most.subject if most else "",
        harm=Harm(parts=tuple(Part(figure="waited", who=it.subject, amount=1.0, span=it.span) for it in waiting)),
    )
