"""What a store keeps, and for how long: summaries for a year and more, detail for weeks, parcels until they are joined.

First a new manifest that no longer names what is too old; the files go later, when no reader can still have the one
before. Files that no manifest ever named, left by a compactor that was killed, go the same way. Killed at any moment,
the next run goes on; a reader never meets a file that is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from zombiescope.fleet import manifest
from zombiescope.fleet.hours import INCOMING, MANIFESTS, Hour, manifest_key, node_of, of_key
from zombiescope.fleet.manifest import Manifest
from zombiescope.fleet.schemas import TABLES, VERSION
from zombiescope.fleet.store import Store

DAY = 86400.0
GRACE = DAY  # seconds: a reader of an old manifest has ended by then, and so has a compactor that is still writing
Listed = dict[Hour, list[tuple[str, float]]]  # keys of each hour, and when each was written


@dataclass(frozen=True, slots=True)
class Keeping:
    """Seconds after the end of an hour."""

    summary: float = 400 * DAY
    detail: float = 30 * DAY
    parcels: float = 2 * DAY  # once they are joined

    def of(self, table: str) -> float:
        return self.detail if TABLES[table].tier == "detail" else self.summary


@dataclass(slots=True)
class Tidied:
    tables: int = 0  # of an hour, that are no longer named
    files: int = 0
    parcels: int = 0
    manifests: int = 0


def tidy(store: Store, now: float, keeping: Keeping | None = None) -> Tidied:
    keeping, done = keeping or Keeping(), Tidied()
    files = _listed(store, (f"{VERSION}/{table}" for table in TABLES))
    parcels, written = _listed(store, [INCOMING]), _listed(store, [MANIFESTS])
    for hour, known in manifest.all_of(store).items():
        at = next((when for key, when in written.get(hour, ()) if key == manifest_key(hour, known.number)), now)
        kept = _unnamed(store, known, now, keeping, done)
        if kept is known and at < now - GRACE:  # nothing new was written, and the newest has been there for long
            _remove_files(store, known, files.get(hour, []), now, done)
            _remove_manifests(store, known, written[hour], done, all_of_them=_over(known, files, now, keeping))
        for key, _ in parcels.get(hour, ()):
            node = node_of(key.rpartition("/")[2])
            if node in known.nodes and hour.end < now - keeping.parcels:
                store.remove(key)
                done.parcels += 1
    return done


def _listed(store: Store, places: Iterable[str]) -> Listed:
    found: Listed = defaultdict(list)
    for place in places:
        for key, at in store.listed(place):
            if its := of_key(key):
                found[its[0]].append((key, at))
    return found


def _unnamed(store: Store, known: Manifest, now: float, keeping: Keeping, done: Tidied) -> Manifest:
    """A manifest without the tables that are too old; the same one if there are none, or a compactor was first."""
    old = {table for table in known.files if known.hour.end < now - keeping.of(table)}
    if not old:
        return known
    new = replace(known, number=known.number + 1, files={it: its for it, its in known.files.items() if it not in old})
    if store.create(manifest_key(new.hour, new.number), new.to_json()):
        done.tables += len(old)
    return new


def _remove_files(store: Store, known: Manifest, files: list[tuple[str, float]], now: float, done: Tidied) -> None:
    named = {key for keys in known.files.values() for key in keys}
    for key, at in files:
        if key not in named and at < now - GRACE:
            store.remove(key)
            done.files += 1


def _over(known: Manifest, files: Listed, now: float, keeping: Keeping) -> bool:
    """Whether nothing is left of an hour, not even what a run before this one had to leave."""
    return not known.files and not files.get(known.hour) and known.hour.end < now - keeping.summary


def _remove_manifests(
    store: Store, known: Manifest, written: list[tuple[str, float]], done: Tidied, *, all_of_them: bool
) -> None:
    newest = manifest_key(known.hour, known.number)
    for key, _ in sorted(written):  # the newest goes last: an older one names files that are gone
        if all_of_them or key < newest:
            store.remove(key)
            done.manifests += 1
