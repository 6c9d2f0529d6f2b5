"""Flame graphs, differences and heatmaps against counting one sample after the other."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.profile.captures import Row, capture

from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.heatmap import heatmap, heatmap_by_core
from zombiescope.profile.tree import Flame, Tree, planted

Path = tuple[str, ...]

functions = st.builds(Function, st.sampled_from("abcd"), st.booleans(), st.sampled_from(["", "libc"]))
whos = st.builds(
    Who, st.integers(0, 2), st.sampled_from(["a", "init", "b;c"]), st.sampled_from(["", "/x", "/x/y", "/xy"])
)
stacks = st.lists(functions, max_size=5).map(tuple)
rows = st.tuples(st.integers(0, 40), st.integers(-1, 3), whos, stacks, st.integers(1, 9))
maybe = st.none() | st.integers(-3, 45)
choices = st.builds(
    Chosen,
    start=maybe,
    end=maybe,
    cpu=st.none() | st.integers(0, 3),
    pid=st.none() | st.integers(0, 2),
    comm=st.none() | st.sampled_from(["a", "init"]),
    cgroup=st.none() | st.sampled_from(["/x", "/xy"]),
)


def wanted(row: Row, chosen: Chosen) -> bool:
    at, cpu, who, _, _ = row
    return (
        (chosen.start is None or at >= chosen.start)
        and (chosen.end is None or at < chosen.end)
        and chosen.cpu in (None, cpu)
        and chosen.pid in (None, who.pid)
        and chosen.comm in (None, who.comm)
        and (chosen.cgroup is None or (who.cgroup + "/").startswith(chosen.cgroup + "/"))
    )


def counted(rows: list[Row], chosen: Chosen) -> tuple[Counter[Path], Counter[Path]]:
    """Own and total of each path, by the book."""
    own: Counter[Path] = Counter()
    total: Counter[Path] = Counter()
    for row in rows:
        if wanted(row, chosen):
            path = ("all", f"process {row[2].comm}", *(_shown(it.name, it.kernel, it.module) for it in row[3]))
            own[path] += row[4]
            total.update({path[:length]: row[4] for length in range(1, len(path) + 1)})
    return own, total


def told(flame: Flame) -> tuple[Counter[Path], Counter[Path]]:
    own: Counter[Path] = Counter()
    total: Counter[Path] = Counter()
    paths: list[Path] = []
    for node in flame:
        here = {"root": "all", "process": f"process {node.name}"}.get(
            node.kind, _shown(node.name, node.kind == "kernel", node.module)
        )
        path = (*(paths[node.parent] if node.parent >= 0 else ()), here)
        assert len(path) == node.depth + 1
        paths.append(path)
        own[path] += node.own
        total[path] += node.total
    return +own, total


def _shown(name: str, kernel: bool, module: str) -> str:
    return f"{name} {kernel} {module}"


@given(st.lists(rows, max_size=30), choices)
def test_every_choice_of_samples_gives_the_flame_graph_that_counting_gives(rows: list[Row], chosen: Chosen) -> None:
    assert told(planted(capture(rows)).flame(chosen)) == counted(rows, chosen)


@given(st.lists(rows, max_size=30), choices, choices)
def test_every_node_of_either_has_its_difference(rows: list[Row], now: Chosen, before: Chosen) -> None:
    tree = planted(capture(rows))
    found = tree.difference(now, before)
    here, there = (counted(rows, chosen) for chosen in (now, before))
    paths = _paths(tree)
    kept = {paths[node] for node in found.nodes().tolist()}
    assert kept == here[1].keys() | there[1].keys()
    for node in range(len(tree)):
        path = paths[node]
        assert found.total()[node] == here[1][path] - there[1][path] * found.scale
        assert found.own()[node] == here[0][path] - there[0][path] * found.scale


def _paths(tree: Tree) -> list[Path]:
    paths: list[Path] = []
    for label, parent in zip(tree.label.tolist(), tree.parent.tolist(), strict=True):
        kind, name = tree.kinds[label], tree.names[label]
        here = ["all", f"process {name}", *[_shown(name, bool(kind == 3), tree.modules[label])] * 2][kind]
        paths.append((*(paths[parent] if parent >= 0 else ()), here))
    return paths


@given(st.lists(rows, min_size=1, max_size=30), choices, st.integers(1, 12))
def test_a_heatmap_counts_every_chosen_sample_in_its_cell(rows: list[Row], chosen: Chosen, cell: int) -> None:
    found = capture(rows)
    cells: Counter[int] = Counter()
    for row in rows:
        if wanted(row, chosen):
            cells[(row[0] - found.start) // cell] += row[4]
    assert {place: heat for place, heat in enumerate(heatmap(found, cell, chosen).tolist()) if heat} == cells
    cores, by_core = heatmap_by_core(found, cell, chosen)
    assert by_core.sum(0).tolist() == heatmap(found, cell, chosen).tolist() or not len(cores)


def test_a_sample_that_ends_a_spell_without_interrupts_fills_the_cells_of_the_spell() -> None:
    who, stack = Who(1, "walker"), (Function("memcg_stat", True),)
    found = capture([(100, 0, who, stack, 1), (140, 0, who, stack, 35)], unit="nanoseconds")
    assert heatmap(found, 10, start=100, end=150).tolist() == [6, 10, 10, 10, 0]


def test_idle_cores_are_left_out_and_interrupts_on_them_are_not() -> None:
    idle = (Function("do_idle", True), Function("default_idle", True))
    softirq = (*idle, Function("net_rx_action", True))
    found = capture([(1, 0, Who(0, "swapper"), idle, 1), (2, 0, Who(0, "swapper"), softirq, 1)], idle=[idle])
    assert planted(found).flame().all == 1
    assert heatmap(found, 1).tolist() == [0, 1]


def test_nothing_at_all_has_a_root_and_no_more() -> None:
    tree = planted(capture([]))
    assert [tuple(node) for node in tree.flame()] == [] and len(tree) == 1
    assert heatmap(capture([]), 10).tolist() == []


def test_some_of_the_samples_share_the_stacks_of_all() -> None:
    found: Samples = capture([(at, 0, Who(1, "a"), (Function("f", False),), 1) for at in range(10)])
    assert planted(found.only(slice(2, 5))).flame().all == 3
