"""Every check on a stranger's folder, laid out as for ZOMBIESCOPE_PATH: rooms with members, and knowledge/."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from zombiescope.conformance import knowledge
from zombiescope.conformance._apart import apart
from zombiescope.conformance._complaint import Complaint
from zombiescope.conformance._member import complaints
from zombiescope.conformance._source import line_of, of_file, of_member, parsed
from zombiescope.core import Unreadable, UserError, harmless
from zombiescope.knowledge import tables
from zombiescope.members.outside import listed, read_regular, why_untrusted
from zombiescope.members.rooms import MEMBER_ROOMS, strangers, turned_away, use_folder

KNOWLEDGE = "knowledge"
_ROOMS = {*MEMBER_ROOMS, KNOWLEDGE}
TRUST = "chown it to root and take the right to write from all others, or check it as yourself"


@dataclass(frozen=True, slots=True)
class Report:
    """What was checked, and what is wrong: each complaint with its file."""

    checked: list[str] = field(default_factory=list)
    complaints: list[tuple[str, Complaint]] = field(default_factory=list)


def check_folder(folder: str) -> Report:
    """The members and the knowledge of one folder. It is used for the rest of this process."""
    folder = os.path.abspath(folder)
    try:
        found = listed(folder)
    except Unreadable as error:
        raise UserError(f"{harmless(folder)}: {error.why}") from None
    if package := _package(folder, found):
        folder, found = package, listed(package)
    use_folder(folder)
    report = Report()
    for name in found:
        path = os.path.join(folder, name)
        if name in (*MEMBER_ROOMS, KNOWLEDGE):
            _add(report, path, name, _room(report, path, name))
        elif near := difflib.get_close_matches(name, (*MEMBER_ROOMS, KNOWLEDGE), n=1):
            _add(report, path, name, [Complaint(says="there is no such room", mend=f"did you mean {near[0]}/?")])
    if not report.checked and not report.complaints:
        rooms = ", ".join(f"{it}/" for it in (*MEMBER_ROOMS, KNOWLEDGE))
        _add(report, folder, "", [Complaint(says="there is nothing to check", mend=f"members lie in {rooms}")])
    return report


def _package(folder: str, found: Iterable[str]) -> str:
    """In a project, the one package with rooms, below it or below src/; empty for a folder that has rooms itself."""
    if _ROOMS & set(found):
        return ""
    inside = [os.path.join(folder, name) for name in found if not name.startswith(".")]
    inside += [os.path.join(it, name) for it in inside if os.path.basename(it) == "src" for name in _names(it)]
    packages = [it for it in inside if _ROOMS & set(_names(it))]
    return packages[0] if len(packages) == 1 else ""


def _names(folder: str) -> list[str]:
    try:
        return listed(folder) if os.path.isdir(folder) else []
    except Unreadable:
        return []


def _room(report: Report, inside: str, room: str) -> list[Complaint]:
    """Checks what lies in a room; returns what is wrong with the room itself."""
    try:
        files = listed(inside)
    except Unreadable as error:
        return [Complaint(says=error.why, mend="a room is a folder that can be read")]
    end = ".toml" if room == KNOWLEDGE else ".py"
    for file in files:
        if file.endswith(end) and not file.startswith(("_", ".")):
            path, member = os.path.join(inside, file), f"{room}/{file.removesuffix('.py')}"
            report.checked.append(harmless(member))
            said = _knowledge(path) if room == KNOWLEDGE else _member(room, file[:-3], path)
            _add(report, path, member, said)
    return []


def _add(report: Report, path: str, member: str, said: Iterator[Complaint] | list[Complaint]) -> None:
    report.complaints.extend((path, replace(it, member=harmless(member))) for it in said)


def _member(room: str, name: str, path: str) -> Iterator[Complaint]:
    try:
        content = read_regular(path)
    except Unreadable as error:
        yield Complaint(says=error.why, mend="a member is a small file of Python")
        return
    tree = parsed(content)
    if isinstance(tree, Complaint):
        yield tree
        return
    text = content.decode("utf-8", "replace")
    yield from of_file(room, f"{room}/{name}.py", text, tree)
    yield from of_member(room, text, tree)
    stranger = strangers(room).get(name)
    if stranger is None or stranger.path != path:
        why = turned_away().get(f"{room}/{harmless(name)}", "it cannot be a member")
        yield Complaint(says=why, mend="give it a name of its own")
    elif why := why_untrusted(path):
        yield Complaint(says=f"not run: {why}", mend=TRUST)
    else:
        for complaint in apart(lambda: list(complaints(room, name))):
            yield replace(complaint, line=complaint.line or line_of(tree, complaint.about))


def _knowledge(path: str) -> Iterator[Complaint]:
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except Unreadable as error:
        yield Complaint(says=error.why, mend="knowledge is a small file of TOML")
        return
    yield from knowledge.check(tables.read(path, read_regular), text)
    if why := why_untrusted(path):
        yield Complaint(says=why, mend=TRUST)
