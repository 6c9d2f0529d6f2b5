"""What a file must be before it is run: short, with its headings, with a reason for each number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from zombiescope.conformance._complaint import Complaint
from zombiescope.conformance._layers import doors, layers
from zombiescope.diagnosis.describe import in_sections

LONGEST = 300  # lines: what does not fit does two things
# What a docstring of a room has under a heading of its own; of several in one tuple, any.
HEADINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "probes": (("Overhead",), ("Kernel",)),
    "signs": (("Why it hurts",), ("False alarms",)),
    "remedies": (("Safe", "Disruptive"), ("Does not fix",)),
    "gate": (("Why it matters",), ("Passes",)),
}
REASONED = ("signs", "laws", "probes", "gate")
PACE = "EVERY"  # how often a probe reads: its overhead is the reason


def parsed(text: str | bytes) -> ast.Module | Complaint:
    """The file as a tree, or why it is not Python."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        return Complaint(says=f"not Python: {error.msg}", mend="mend the syntax", line=error.lineno or 0)
    except (ValueError, RecursionError, MemoryError) as error:
        return Complaint(says=f"not Python: {error}", mend="write it as text")


def of_file(room: str, where: str, text: str, tree: ast.Module) -> Iterator[Complaint]:
    """What holds for every file of a room; `where` is its path in the package."""
    if (length := len(text.splitlines())) >= LONGEST:
        yield Complaint(says=f"{length} lines", mend=f"a file has fewer than {LONGEST}: take it apart", line=LONGEST)
    words = ast.get_docstring(tree)
    if not words or not words.splitlines()[0].rstrip().endswith((".", ":", ",")):
        yield Complaint(
            says="its first line does not say what it is", mend="begin with a docstring, a sentence", line=1
        )
    yield from layers(room, tree)
    yield from doors(room, where, tree)


def of_member(room: str, text: str, tree: ast.Module) -> Iterator[Complaint]:
    """What holds for members: their headings, and a reason for every threshold."""
    summary, sections = in_sections(ast.get_docstring(tree) or "")
    for wanted in HEADINGS.get(room, ()):
        if not sections.keys() & set(wanted):
            heading = " or ".join(f"“{it}: …”" for it in wanted)
            yield Complaint(says=f"its docstring has no {heading}", mend="say it there, on a line of its own", line=1)
    if room == "laws" and ". " in summary:
        yield Complaint(says="its docstring is more than one sentence", mend="a law is one sentence", line=1)
    if room in REASONED:
        lines = text.splitlines()
        for name, line in _numbers(tree):
            if name != PACE and not re.search(r"# \S", lines[line - 1]):
                mend = "write the reason behind it: # why that number"
                yield Complaint(says=f"{name} has no reason", mend=mend, line=line)


def line_of(tree: ast.Module, name: str) -> int:
    """Where a constant or function of the file stands; 0 if nowhere."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if getattr(node, "name", None) == name or any(isinstance(it, ast.Name) and it.id == name for it in targets):
            return node.lineno
    return 0


def _numbers(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Constants in capitals that are numbers, and their lines."""
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if name.isupper() and not name.startswith("_") and _is_number(node.value):
            yield name, node.end_lineno or node.lineno


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return all(_is_number(it) or isinstance(it, ast.Name) for it in (node.left, node.right))
    return False
