"""Files that people keep beside their images: units that may start, and objections that are accepted for now.

    units = ["kubelet.service", "nvidia-*.service"]        # the allow-list

    [[allow]]                                              # the same, with a lifecycle
    unit = "datadog-agent.service"                         # a pattern may stand for several
    owner = "observability@example.com"
    reason = "metrics of every node"
    review_by = 2027-06-30

    [[accept]]                                             # the baseline
    rule = "endless_restart"
    subject = "unit:containerd.service"                    # a pattern may stand for several
    reason = "kubelet needs it back, always"
    expires = 2027-06-30

An entry has a reason and an expiry date, or it is itself an objection: a baseline must not become a place to forget.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from zombiescope.core import UserError
from zombiescope.core.host import why
from zombiescope.gate._objection import Accepted, Objection, Ruling
from zombiescope.gate._rulings import ruled, weighed
from zombiescope.members.rooms import names
from zombiescope.processes.opening import regular

RULE = "baseline"
MOST_BYTES = 1 << 20  # of either file; a list of every unit of a distribution has 30 KB
_KEYS = {"rule", "subject", "reason", "expires"}
_ALLOWANCE = {"unit", "owner", "reason", "review_by"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """A unit, or a pattern of units, that may start."""

    unit: str
    owner: str = ""
    reason: str = ""
    review_by: date | None = None
    where: str = ""  # its file
    place: int = 0  # among the [[allow]] entries of that file, from 1; 0 for a bare pattern of `units`

    def covers(self, unit: str) -> bool:
        return fnmatchcase(unit, self.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """One entry of a baseline."""

    rule: str
    subject: str
    reason: str
    expires: date | None
    where: str  # its file
    place: int  # in that file, from 1

    def covers(self, objection: Objection) -> bool:
        return objection.rule == self.rule and fnmatchcase(objection.subject, self.subject)

    def faults(self, today: date) -> Iterator[str]:
        if not self.reason.strip():
            yield "it has no reason"
        if self.expires is None:
            yield "it has no expiry date: add expires = 2027-06-30"
        elif self.expires < today:
            yield f"it expired on {self.expires}"
        if self.rule not in names("gate"):
            yield f"{self.rule!r} is not a rule"


def read_allowed(path: str) -> list[Allowance]:
    table = _table(path, {"units", "allow"})
    units, entries = table.get("units", []), table.get("allow", [])
    if not isinstance(units, list) or not all(isinstance(it, str) for it in units) or not table:
        raise UserError(f'{path}: not an allow-list: write it as units = ["NAME.service", …]')
    if not isinstance(entries, list) or not all(isinstance(it, dict) for it in entries):
        raise UserError(f"{path}: not an allow-list: write entries as [[allow]]")
    bare = [Allowance(unit=unit, where=os.path.relpath(path)) for unit in units]
    return [*bare, *(_allowance(entry, path, place) for place, entry in enumerate(entries, 1))]


def read_baseline(path: str) -> list[Acceptance]:
    entries = _table(path, {"accept"}).get("accept", [])
    if not isinstance(entries, list) or not all(isinstance(it, dict) for it in entries):
        raise UserError(f"{path}: not a baseline: write it as a list of [[accept]] entries")
    return [_acceptance(entry, path, place) for place, entry in enumerate(entries, 1)]


def accept(found: Sequence[Ruling], baseline: Sequence[Acceptance], today: date, *, strict: bool) -> list[Ruling]:
    """The rulings with accepted objections marked, and one ruling on the baseline itself."""
    sound = [entry for entry in baseline if not list(entry.faults(today))]
    used: set[Acceptance] = set()

    def marked(objection: Objection) -> Objection:
        entry = next((it for it in sound if it.covers(objection)), None)
        if entry is None:
            return objection
        used.add(entry)
        return replace(objection, accepted=Accepted(reason=entry.reason, expires=str(entry.expires)))

    judged = []
    for ruling in found:
        marking = replace(ruling, objections=tuple(map(marked, ruling.objections)))
        judged.append(ruling if ruling.state == "skipped" else weighed(marking))
    if not baseline:
        return judged
    asked = {ruling.rule for ruling in found if ruling.state != "skipped"}
    idle = [entry for entry in sound if entry not in used and entry.rule in asked]
    complaints = [*_faulty(baseline, today), *_idle(idle)]
    saw = f"entries in the baseline: {len(baseline)}; used: {len(used)}"
    return [*judged, ruled(RULE, complaints, saw, strict=strict)]


def _faulty(baseline: Sequence[Acceptance], today: date) -> Iterator[Objection]:
    for entry in baseline:
        if faults := list(entry.faults(today)):
            yield Objection(
                subject=f"baseline:{entry.rule}/{entry.subject}",
                says=f"entry {entry.place} accepts nothing: {', '.join(faults)}",
                where=entry.where,
                fix=("remove the entry, or give it a reason and a new expiry date",),
            )


def _idle(idle: Sequence[Acceptance]) -> Iterator[Objection]:
    for entry in idle:
        yield Objection(
            subject=f"baseline:{entry.rule}/{entry.subject}",
            says=f"entry {entry.place} is not needed: no objection matches it",
            where=entry.where,
            level="note",
            fix=("remove the entry",),
        )


def _allowance(entry: dict[str, Any], path: str, place: int) -> Allowance:
    where = f"{path}, [[allow]] entry {place}"
    if odd := set(entry) - _ALLOWANCE:
        raise UserError(f"{where}: unknown setting {min(odd)}; there are {', '.join(sorted(_ALLOWANCE))}")
    words = {key: entry.get(key, "") for key in ("unit", "owner", "reason")}
    if not all(isinstance(word, str) for word in words.values()) or not words["unit"]:
        raise UserError(f"{where}: an entry needs a unit; unit, owner and reason are texts")
    review = entry.get("review_by")
    if review is not None and type(review) is not date:
        raise UserError(f"{where}: review_by must be a date such as 2027-06-30, without quotes")
    return Allowance(**words, review_by=review, where=os.path.relpath(path), place=place)


def _acceptance(entry: dict[str, Any], path: str, place: int) -> Acceptance:
    where = f"{path}, entry {place}"
    if odd := set(entry) - _KEYS:
        raise UserError(f"{where}: unknown setting {min(odd)}; there are {', '.join(sorted(_KEYS))}")
    words = {key: entry.get(key, "") for key in ("rule", "subject", "reason")}
    if not all(isinstance(word, str) for word in words.values()) or not words["rule"] or not words["subject"]:
        raise UserError(f"{where}: an entry needs a rule and a subject, both as text")
    expires = entry.get("expires")
    if expires is not None and type(expires) is not date:
        raise UserError(f"{where}: expires must be a date such as 2027-06-30, without quotes")
    return Acceptance(**words, expires=expires, where=os.path.relpath(path), place=place)


def _table(path: str, known: set[str]) -> dict[str, Any]:
    try:
        with open(regular(path), "rb") as file:
            text = file.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise UserError(f"{path}: larger than {MOST_BYTES:,} bytes")
        table = tomllib.loads(text.decode())
    except OSError as error:
        raise UserError(f"{path}: {why(error)}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from error
    if odd := set(table) - known:
        raise UserError(f"{path}: unknown setting {min(odd)}; there is {', '.join(sorted(known))}")
    return table
