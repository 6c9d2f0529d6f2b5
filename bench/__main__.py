"""Run every bench of this folder and print its ratios; exit code 1 if one is over its limit.

python -m bench [NAME …]
"""

from __future__ import annotations

import compileall
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from typing import NamedTuple

import bench
import zombiescope
from zombiescope.core import UserError


class Ratio(NamedTuple):
    """One line: what was measured against what, and how far it may go."""

    what: str
    measured: float
    limit: float
    detail: str


def main(wanted: list[str]) -> int:
    over = 0
    # As an installed package is. Where PYTHONDONTWRITEBYTECODE is set every start compiles all of it: 0.4 s.
    for folder in zombiescope.__path__:
        compileall.compile_dir(folder, quiet=1)
    print("bench\tratio\tlimit\t")
    for name in sorted(it.name for it in pkgutil.iter_modules(bench.__path__) if not it.name.startswith("_")):
        if wanted and name not in wanted:
            continue
        try:
            ratios: Iterator[tuple[str, float, float, str]] = importlib.import_module(f"bench.{name}").ratios()
            for ratio in map(Ratio._make, ratios):
                over += ratio.measured > ratio.limit
                mark = "OVER" if ratio.measured > ratio.limit else "ok"
                print(
                    f"{name}: {ratio.what}\t{ratio.measured:.3g}\t{ratio.limit:g}\t{mark}\t{ratio.detail}", flush=True
                )
        except (UserError, PermissionError) as error:
            print(f"{name}\t-\t-\tnot measured\t{error}", flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
