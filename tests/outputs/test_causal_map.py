"""The drawing of causes and effects: what is above what, nothing on top of anything, and the same each time."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given, settings

from zombiescope.outputs._layers import lay_out
from zombiescope.outputs._map import Arrow, Box, draw

SVG = "{http://www.w3.org/2000/svg}"
GAP, DROP, TALL = 10.0, 40.0, 20.0
# As wide and deep as ours will be: many causes of one thing, arrows that pass several layers, signs on their own.
LAWS = [
    (cause, effect)
    for cause, effects in {
        "unused_agent": "crash_looping_unit",
        "crash_looping_unit": "zombie_cgroups cgroup_churn",
        "cgroup_churn": "zombie_cgroups cgroup_walker",
        "zombie_cgroups": "slow_stat_read cgroup_walker direct_reclaim slab_bloat irq_off_stall",
        "cgroup_walker": "saturated_core",
        "saturated_core": "starved_softirq starved_thread soft_lockup",
        "starved_softirq": "driver_reset",
        "driver_reset": "job_failure",
        "direct_reclaim": "blocked_tasks saturated_core cpu_throttling",
        "slab_bloat": "direct_reclaim oom_kill",
        "realtime_hog": "starved_thread starved_softirq",
        "irq_off_stall": "starved_softirq",
        "irq_pile_up": "saturated_core",
        "softirq_storm": "saturated_core",
        "mount_explosion": "saturated_core",
        "page_fault_storm": "saturated_core",
        "fork_storm": "saturated_core",
        "stolen_cpu": "starved_thread",
        "oom_kill": "job_failure",
        "cpu_throttling": "job_failure",
        "blocked_tasks": "job_failure",
        "conntrack_full": "job_failure",
    }.items()
    for effect in effects.split()
]
SIGNS = sorted({end for law in LAWS for end in law} | {"defunct_processes", "leaked_netns"})
Graph = tuple[dict[str, tuple[float, float]], list[tuple[str, str]]]


@st.composite
def graphs(draw_from: st.DrawFn) -> Graph:
    """Any graph without circles: arrows lead from a lower number to a higher one."""
    count = draw_from(st.integers(1, 14))
    sizes = {f"s{it}": (draw_from(st.sampled_from([30.0, 80.0, 170.0])), TALL) for it in range(count)}
    pairs = list(combinations(sizes, 2))
    chosen = draw_from(st.lists(st.sampled_from(pairs), unique=True, max_size=25)) if pairs else []
    return sizes, draw_from(st.permutations(chosen))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_causes_stand_above_their_effects_and_nothing_on_top_of_anything(graph: Graph) -> None:
    sizes, arrows = graph
    layout = lay_out(sizes, arrows, gap=GAP, drop=DROP)
    assert layout.boxes.keys() == sizes.keys() and layout.bends.keys() == set(arrows)
    for cause, effect in arrows:
        down = [layout.boxes[cause][1], *(y for _, y in layout.bends[cause, effect]), layout.boxes[effect][1]]
        assert down == sorted(set(down)), "an arrow leads down, a layer at a time"
    # In a row everything keeps its distance, the arrows that pass through it too.
    rows = [(x, y, sizes[name][0]) for name, (x, y) in layout.boxes.items()]
    rows += [(x, y, 0.0) for bends in layout.bends.values() for x, y in bends]
    for (x, y, wide), (other_x, other_y, other_wide) in combinations(rows, 2):
        assert y != other_y or abs(x - other_x) >= (wide + other_wide) / 2 + GAP - 1e-6
    for x, y, wide in rows:
        assert x - wide / 2 >= -1e-6 and x + wide / 2 <= layout.width + 1e-6
        assert TALL / 2 - 1e-6 <= y <= layout.height - TALL / 2 + 1e-6
    assert lay_out(sizes, arrows, gap=GAP, drop=DROP) == layout


def test_a_chain_is_a_straight_line_and_a_tree_has_no_crossings() -> None:
    chain = lay_out(dict.fromkeys("abcdefg", (60.0, TALL)), [*zip("abcdef", "bcdefg", strict=True)], gap=GAP, drop=DROP)
    assert len({round(x) for x, _ in chain.boxes.values()}) == 1 and chain.width == 60
    tree = [("a", "c"), ("b", "d"), ("b", "e"), ("a", "f"), ("b", "g"), ("a", "h"), ("r", "b"), ("r", "a")]
    drawn = lay_out(dict.fromkeys("abcdefghr", (60.0, TALL)), tree, gap=GAP, drop=DROP).boxes
    for (cause, effect), (other, its_effect) in combinations(tree, 2):
        if drawn[cause][1] == drawn[other][1]:
            across = (drawn[cause][0] - drawn[other][0]) * (drawn[effect][0] - drawn[its_effect][0])
            assert across >= 0, f"{cause}→{effect} crosses {other}→{its_effect}"


def test_a_first_cause_stands_beside_its_effect_but_a_row_is_not_filled_without_end() -> None:
    arrows = [("a", "b"), ("b", "c"), ("c", "core"), *((f"hog{it}", "core") for it in range(9))]
    layout = lay_out({end: (60.0, TALL) for arrow in arrows for end in arrow}, arrows, gap=GAP, drop=DROP)
    rows = [y for _, y in layout.boxes.values()]
    beside = [y for name, (_, y) in layout.boxes.items() if "hog" in name and y == layout.boxes["c"][1]]
    assert len(beside) == 5
    assert max(rows.count(y) for y in rows) == 6


def test_the_map_of_thirty_signs_is_whole_and_fits_a_page() -> None:
    drawn = draw(
        {sign: Box(lines=(sign,), title=f"{sign} hurts") for sign in SIGNS},
        [Arrow(cause=cause, effect=effect, title="for a reason") for cause, effect in LAWS],
        label="map",
        alone=True,
    )
    svg = ElementTree.fromstring(drawn)
    assert [text.text for text in svg.iter(f"{SVG}text")][: len(SIGNS)] == SIGNS
    assert sum("arrow" in path.get("class", "") for path in svg.iter(f"{SVG}path")) == len(LAWS)
    assert float(svg.get("width", "")) < 1100 and float(svg.get("height", "")) < 900
    kinds = {group.findtext(f"{SVG}text"): group.get("class") for group in svg.iter(f"{SVG}g") if group.get("class")}
    assert (kinds["unused_agent"], kinds["zombie_cgroups"], kinds["job_failure"]) == ("first", "between", "last")
    assert "no law joins these yet" in drawn and kinds["leaked_netns"] == "between"
    assert "prefers-color-scheme: dark" in drawn and "http" not in drawn.replace("http://www.w3.org/2000/svg", "")


def test_hostile_names_are_drawn_and_not_obeyed() -> None:
    evil = '"><script>alert(1)</script>\x1b[31m\n\udcff'
    drawn = draw(
        {"a": Box(lines=(evil, evil), title=evil, href="#a"), "b": Box(lines=("b",))},
        [Arrow(cause="a", effect="b", title=evil, weak=True)],
        label=evil,
        alone=False,
    )
    svg = ElementTree.fromstring(drawn)
    assert not list(svg.iter(f"{SVG}script")) and "\x1b" not in drawn and drawn.encode("utf-8")
    assert "<style" not in drawn, "a part of a page has the page's style"


def test_nothing_at_all_can_be_drawn() -> None:
    assert ElementTree.fromstring(draw({}, [], label="nothing", alone=True)).tag == f"{SVG}svg"
