"""The census with names: families first, then each dying cgroup, as JSON, CSV or a table."""

from __future__ import annotations

import csv
import fnmatch
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from zombiescope.core import amount, harmless

if TYPE_CHECKING:
    from zombiescope.kernel.named_zombies import Named, Zombie

_RIGHT = ("dying", "grown", "pages", "in parent")
LEAST_EACH = 4_000  # bytes: the structure alone has more, so a kernel that charges less does not charge it
SHOWN = 20  # families and pins in a table; JSON and CSV have them all


def shape(after: Named, before: Named | None, pattern: str | None) -> dict[str, Any]:
    """What JSON has of names. `before` is an earlier walk, for growth by family."""
    from zombiescope.cgroups.families import belongs_to, families

    family_of = families(zombie.path for zombie in after.zombies)
    wanted = [zombie for zombie in after.zombies if _matches(family_of[zombie.path], pattern)]
    earlier = Counter(families(it.path for it in before.zombies).values()) if before else None
    groups: dict[str, list[Zombie]] = {}
    for zombie in wanted:
        groups.setdefault(family_of[zombie.path], []).append(zombie)
    rows = []
    for name, members in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        parents = {zombie.parent for zombie in members}
        hidden = sum(after.hidden.get(parent, 0) for parent in parents)
        pins = Counter(zombie.pinned_by for zombie in members)
        owners = Counter(belongs_to(zombie.path) for zombie in members)
        rows.append(
            {
                "name": harmless(name),
                "dying": len(members),
                "grown": None if earlier is None else len(members) - earlier[name],
                "example": harmless(members[0].path),
                "parent_alive": members[0].parent_alive,
                "usage_bytes": _sum(zombie.usage_bytes for zombie in members),
                "hidden_in_parent_bytes": hidden if after.rung == "bpf" else None,
                "pinned_by": [{"what": harmless(what), "dying": times} for what, times in pins.most_common(5)],
                "belonged_to": harmless(owners.most_common(1)[0][0]),
                "owners": len(owners),
            }
        )
    return {
        "families": rows,
        "zombies": [_zombie(zombie, family_of[zombie.path]) for zombie in wanted],
        "names_from": after.rung,
        "why_none": "; ".join(harmless(why) for why in after.refused),
        "bytes_each_measured": _measured(after),
        "walk_kernel_seconds": round(after.kernel_seconds, 6),
    }


def without_names(why: str) -> dict[str, Any]:
    return {"families": [], "zombies": [], "names_from": "none", "why_none": why}


def _measured(named: Named) -> int | None:
    """Kernel memory that one dying cgroup holds here, by what the parents are charged.

    None if there are too few, or if this kernel charges so little of it (29 bytes, Linux 5.10) that it says nothing.
    """
    dying = Counter(zombie.parent for zombie in named.zombies)
    crowded = [parent for parent, times in dying.items() if times >= 100 and parent in named.hidden]
    total = sum(dying[parent] for parent in crowded)
    each = sum(named.hidden[parent] for parent in crowded) / total if total else 0.0
    return round(each) if each >= LEAST_EACH else None


def _matches(name: str, pattern: str | None) -> bool:
    return pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern)


def _sum(sizes: Any) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _zombie(zombie: Zombie, family: str) -> dict[str, Any]:
    return {
        "name": harmless(zombie.name),
        "parent": harmless(zombie.parent),
        "path": harmless(zombie.path, most=5000),
        "family": harmless(family),
        "usage_bytes": zombie.usage_bytes,
        "pinned_by": [harmless(zombie.pinned_by)],
        "references": zombie.references,
        "parent_alive": zombie.parent_alive,
    }


def write_csv(result: dict[str, Any]) -> None:
    columns = ("path", "name", "parent", "family", "usage_bytes", "pinned_by", "references", "parent_alive")
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {"pinned_by": "; ".join(row["pinned_by"])} for row in result["zombies"])


def write_text(result: dict[str, Any], by_pin: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width: nothing is cut there.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 400)
    higher = f" ({result['why_none']})" if result["why_none"] else ""
    console.print(Text(f"\nnames from: {result['names_from']}{higher}"))
    if result.get("bytes_each_measured"):
        console.print(
            f"each dying cgroup holds {amount(result['bytes_each_measured'])} of kernel memory, charged to its parent"
        )
    table = Table(box=None, pad_edge=False, header_style="bold")
    if by_pin:
        pins = Counter(pin for row in result["zombies"] for pin in row["pinned_by"])
        rows = [[f"{times:,}", what] for what, times in pins.most_common()]
        for heading in ("dying", "pinned by"):
            table.add_column(heading, justify="right" if heading == "dying" else "left", overflow="fold")
    else:
        rows = [[*_figures(row), row["name"], _pinned(row), row["belonged_to"]] for row in result["families"]]
        for heading in (*_RIGHT, "family", "pinned by", "belonged to"):
            table.add_column(heading, justify="right" if heading in _RIGHT else "left", overflow="fold")
    for cells in rows[:SHOWN]:
        table.add_row(*(Text(cell) for cell in cells))
    if rows:
        console.print(table)
    if len(rows) > SHOWN:
        console.print(f"… and {len(rows) - SHOWN:,} more; --format json and csv list all")


def _figures(row: dict[str, Any]) -> list[str]:
    sizes = ["?" if row[key] is None else amount(row[key]) for key in ("usage_bytes", "hidden_in_parent_bytes")]
    return [f"{row['dying']:,}", "?" if row["grown"] is None else f"{row['grown']:+,}", *sizes]


def _pinned(row: dict[str, Any]) -> str:
    more = f" and {len(row['pinned_by']) - 1} more" if len(row["pinned_by"]) > 1 else ""
    return (row["pinned_by"][0]["what"] if row["pinned_by"] else "") + more
