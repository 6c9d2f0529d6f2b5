"""Who may import whom, and who may touch the machine: read from a file's text, which is not run for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from zombiescope.conformance._complaint import Complaint
from zombiescope.members.rooms import MEMBER_ROOMS

# Who may import whom, of ours. A member never imports a member of its own room.
MAY_IMPORT = {
    "places": {"places"},
    "processes": {"places", "processes"},
    "core": {"places", "processes", "core"},
    "members": {"processes", "core", "members"},
    "knowledge": {"core", "members", "knowledge"},
    "cgroups": {"core", "cgroups"},
    "derived": {"core", "knowledge", "derived"},
    "kernel": {"places", "processes", "core", "kernel"},
    "probes": {"places", "core", "knowledge", "cgroups", "probes", "kernel", "audit"},
    "naming": {"processes", "core", "kernel", "knowledge", "naming"},
    "recorder": {
        *("places", "processes", "core", "members", "derived", "recorder", "kernel", "naming", "knowledge", "profile"),
    },
    "signs": {"core", "knowledge", "cgroups", "derived"},
    "laws": {"core", "knowledge", "cgroups", "derived"},
    "questions": {"core", "knowledge", "cgroups", "derived"},
    "remedies": {"places", "core", "knowledge", "cgroups", "derived"},
    "diagnosis": {"core", "members", "knowledge", "diagnosis"},
    "compare": {"core", "members", "derived", "diagnosis", "compare"},
    "kubernetes": {"core", "outputs", "kubernetes"},
    "plugin": {"core", "outputs", "kubernetes", "plugin"},
    "treatment": {"places", "core", "members", "knowledge", "cgroups", "derived", "kernel", "audit", "treatment"},
    "outputs": {"core", "members", "knowledge", "outputs", "profile"},
    "profile": {"core", "members", "knowledge", "naming", "profile"},
    "audit": {"processes", "core", "kernel", "knowledge", "audit"},
    "gate": {"places", "processes", "core", "members", "kernel", "knowledge", "cgroups", "audit", "gate"},
    "agent": {
        *("places", "processes", "core", "members", "knowledge", "cgroups", "diagnosis", "recorder", "outputs"),
        *("profile", "web", "derived", "kubernetes", "fleet", "agent"),
    },
    "top": {
        *("places", "core", "kernel", "cgroups", "derived", "diagnosis", "recorder", "outputs", "agent", "top"),
    },
    "fleet": {"places", "processes", "core", "members", "cgroups", "derived", "diagnosis", "recorder", "fleet"},
    "lab": {"places", "core", "members", "kernel", "lab", "probes", "recorder"},
    "conformance": {"kernel", "core", "members", "knowledge", "diagnosis", "recorder", "gate", "lab", "conformance"},
}
# Only the others touch the machine; signs, laws, remedies and outputs know what the timeline knows.
PURE = (
    *("signs", "laws", "questions", "remedies", "outputs", "cgroups", "derived", "diagnosis", "compare", "profile"),
)
DOORS = {"os", "subprocess", "socket", "pathlib", "shutil", "ctypes", "fcntl", "mmap"}
HEAVY = {"duckdb": "fleet", "obstore": "fleet", "ray": "fleet", "starlette": "web", "uvicorn": "web"}
# Who runs commands, or, as a server, our own; the lab, the agent, top and the plugin make processes of their own.
COMMANDS = ("core/host.py", "web/fleet_server.py")
ACTS = ("treatment/apply.py", "treatment/ready.py")  # who changes a machine


def layers(room: str, tree: ast.Module) -> Iterator[Complaint]:
    """What a file of a room imports though it may not."""
    for name, node in _imports(tree):
        parts = name.split(".")
        line = node.lineno
        if isinstance(node, ast.ImportFrom) and node.level and room in MEMBER_ROOMS:
            yield Complaint(says=f"it imports {name} beside it", mend="a member never imports a sibling", line=line)
        if parts[0] in HEAVY and (room != HEAVY[parts[0]] or node in tree.body):
            mend = f"import {parts[0]} only in {HEAVY[parts[0]]}/, and inside the functions that need it"
            yield Complaint(says=f"it imports {parts[0]}", mend=mend, line=line)
        if room in PURE and parts[0] in DOORS:
            mend = "ask the timeline: what it lacks, a probe reads"
            yield Complaint(says=f"{room}/ never touches the machine, but it imports {parts[0]}", mend=mend, line=line)
        if parts[0] != "zombiescope" or len(parts) < 3 or room not in MAY_IMPORT:
            continue
        if parts[1] not in MAY_IMPORT[room]:
            mend = f"{room} may import {', '.join(sorted(MAY_IMPORT[room]))}"
            yield Complaint(says=f"it imports zombiescope.{parts[1]}", mend=mend, line=line)
        elif parts[1] == room and room in MEMBER_ROOMS and not parts[2].startswith("_"):
            yield Complaint(says=f"it imports {name}", mend="a member never imports a sibling", line=line)


def doors(room: str, where: str, tree: ast.Module) -> Iterator[Complaint]:
    """Who runs commands, opens files, prints or acts though it is not the place for it; `where` is its path."""
    for name, node in _imports(tree):
        if (
            name.split(".")[0] == "subprocess"
            and where not in COMMANDS
            and room not in ("lab", "agent", "top", "plugin")
        ):
            yield Complaint(says="it imports subprocess", mend="run commands by host.run", line=node.lineno)
    for part in ast.walk(tree):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and room in PURE:
            elsewhere = any(it.arg == "file" for it in part.keywords)
            if part.func.id in ("open", "print") and not elsewhere:
                mend = "a probe reads, an output writes into `out`"
                yield Complaint(says=f"{room}/ never calls {part.func.id}", mend=mend, line=part.lineno)
        if isinstance(part, ast.Attribute) and part.attr == "act" and where not in ACTS:
            yield Complaint(says="it acts on the machine", mend="return a Plan: `fix` carries it out", line=part.lineno)


def _imports(tree: ast.Module) -> Iterator[tuple[str, ast.Import | ast.ImportFrom]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = f"{node.module}." if node.module else ""
            yield from ((before + alias.name, node) for alias in node.names)
