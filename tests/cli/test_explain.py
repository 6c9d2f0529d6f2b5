"""`zombiescope explain`: the causal map as a tree, as a drawing, for Graphviz and for programs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from tests.conftest import Run

from zombiescope.cli._causal_map import causal_map, joins
from zombiescope.members.rooms import names


def test_the_tree_shows_each_law_at_least_once_and_unfolds_nothing_twice() -> None:
    shown: set[tuple[str, str]] = set()
    above: list[str] = []
    unfolded: list[str] = []
    for line in causal_map("text").partition("\n\n")[0].splitlines():
        found = re.fullmatch(r"((?:[│ ]  )*)(?:[├└]→ )?(\w+)( … as above)?", line)
        assert found, line
        depth = (len(found[1]) // 3 + 1) if "→" in line else 0
        del above[depth:]
        shown |= {(above[-1], found[2])} if above else set()
        above.append(found[2])
        unfolded += [] if found[3] else [found[2]]
    laws = {(cause, effect) for _, cause, effect in joins()}
    assert shown == laws
    causes = {cause for cause, _ in laws}
    assert sorted(sign for sign in unfolded if sign in causes) == sorted(causes)


def test_every_format_has_every_sign_and_law(zombiescope: Run) -> None:
    for style in ("text", "json", "dot", "svg"):
        shown = zombiescope("explain", "--map", "--format", style, expect=0).stdout
        assert set(names("signs")) <= set(re.findall(r"\w+", shown)), style
    svg = ElementTree.fromstring(zombiescope("explain", "--map", "--format", "svg", expect=0).stdout)
    assert sum(path.get("class") == "arrow" for path in svg.iter("{http://www.w3.org/2000/svg}path")) == len(joins())
    shape = json.loads(zombiescope("explain", "--map", "--format", "json", expect=0).stdout)
    assert [law["law"] for law in shape["laws"]] == names("laws")


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_takes_the_map() -> None:
    done = subprocess.run(["dot", "-Tsvg"], input=causal_map("dot").encode(), capture_output=True, check=True)
    assert b"<svg" in done.stdout


def test_a_drawing_is_for_the_map(zombiescope: Run) -> None:
    done = zombiescope("explain", "zombie_cgroups", "--format", "svg", expect=2)
    assert "--format svg needs --map" in done.stderr and not done.stdout
