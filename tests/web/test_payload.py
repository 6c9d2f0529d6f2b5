"""The bundle tells the same as the capture, the timeline and the case it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nodes import T0, cores, node, read
from tests.outputs.incident import STAGES
from tests.outputs.incident_readings import STALLS
from tests.profile.captures import Row, capture
from tests.web import scene
from tests.web.unpacked import Unpacked

from zombiescope.core.samples import Function, Samples, Who
from zombiescope.core.timeline import Timeline
from zombiescope.profile.chosen import Chosen
from zombiescope.profile.heatmap import heatmap
from zombiescope.profile.tree import planted
from zombiescope.web import _rows
from zombiescope.web._axis import CELL, SECOND, axis_of
from zombiescope.web._cores import FULL, UNSEEN, modes
from zombiescope.web._rows import rows_of
from zombiescope.web._series import curves
from zombiescope.web.payload import bundle

functions = st.builds(Function, st.sampled_from("abcd"), st.booleans(), st.sampled_from(["", "libc"]))
whos = st.builds(Who, st.integers(-1, 2), st.sampled_from(["a", "b;c"]), st.sampled_from(["", "/x", "/x/y"]))
rows = st.tuples(
    st.integers(0, 3 * SECOND), st.integers(-1, 3), whos, st.lists(functions, max_size=4).map(tuple), st.integers(1, 9)
)


def own_by_path(found: Samples, chosen: Chosen) -> dict[tuple[str, ...], int]:
    paths: list[tuple[str, ...]] = []
    own: dict[tuple[str, ...], int] = {}
    for it in planted(found).flame(chosen):
        paths.append((*paths[it.parent], it.name) if it.parent >= 0 else ())
        if it.own:
            own[paths[-1]] = own.get(paths[-1], 0) + it.own
    return own


@given(st.lists(rows, min_size=1, max_size=25), st.integers(0, 3), st.integers(0, 3))
def test_every_range_of_ticks_holds_what_the_tree_says(rows: list[Row], start: int, end: int) -> None:
    found = replace(capture(rows), clock="unix")
    told = Unpacked(bundle(found))
    origin, tick = int(told.header["origin"]), told.header["tick"]
    assert origin % SECOND == 0 and tick == 1
    chosen = Chosen(start=origin + start * SECOND, end=origin + end * SECOND)
    assert told.totals(start * SECOND, end * SECOND) == own_by_path(found, chosen)


def test_times_of_twelve_hours_fit_into_ticks_that_divide_a_cell() -> None:
    rows: list[Row] = [(at, 0, Who(1, "a"), (), 1) for at in (17, 43_200 * SECOND + 5)]
    told = Unpacked(bundle(replace(capture(rows), clock="unix")))
    tick = told.header["tick"]
    assert tick == 100_000 and CELL % tick == 0
    assert np.cumsum(told.numbers("at").astype(np.int64)).tolist() == [0, (43_200 * SECOND + 5) // tick]


def test_idle_cores_are_left_out_and_numbers_take_the_narrowest_type() -> None:
    idle = (Function("do_idle", True),)
    rows: list[Row] = [(1, 0, Who(0, "swapper"), idle, 1), (2, 300, Who(7, "a"), (Function("f", False),), 70_000)]
    told = Unpacked(bundle(capture(rows, idle=[idle])))
    assert told.header["samples"] == 1 and told.numbers("weight").tolist() == [70_000]
    assert {name: told.header["columns"][name][0] for name in ("cpu", "weight", "kinds")} == {
        "cpu": "u2",
        "weight": "u4",
        "kinds": "u1",
    }
    assert told.numbers("cpu").tolist() == [301], "one more than the core: 0 is unknown"


def test_a_gap_of_five_seconds_is_told_exactly() -> None:
    five = 5 * SECOND + 123
    rows: list[Row] = [(6 * SECOND, 1, Who(1, "walker"), (Function("walk", True),), five)]
    told = Unpacked(bundle(replace(capture(rows, unit="nanoseconds"), clock="unix", hz=99.0)))
    assert told.numbers("weight").tolist() == [five] and told.header["columns"]["weight"][0] == "f8"
    assert told.numbers("long").tolist() == [0]


def test_too_many_samples_become_fewer_rows_that_add_up_to_the_same() -> None:
    found = scene.capture()
    tree, axis = planted(found), axis_of(found, None)
    fine = rows_of(found, tree.leaf, axis)
    assert len(fine.at) == len(found) and not fine.notes
    merged = rows_of(found, tree.leaf, axis, most=len(found) // 2)
    assert merged.axis.tick in [it * CELL for it in _rows.COARSER[1:]] and len(merged.at) <= len(found) // 2
    assert "are merged" in merged.notes[0] and "--from" in merged.notes[0]
    for column in ("cpu", "who", "leaf"):
        sums = [np.bincount(getattr(it, column), it.weight) for it in (fine, merged)]
        assert sums[0].tolist() == sums[1].tolist()
    cells = [np.bincount(it.at * it.axis.tick // merged.axis.tick, it.weight) for it in (fine, merged)]
    assert cells[0].tolist() == cells[1].tolist()
    assert (np.diff(merged.at) >= 0).all()


def test_what_rows_are_too_coarse_for_the_heatmap_has_apart() -> None:
    found = scene.capture()
    told = Unpacked(bundle(found, most_rows=30_000))
    origin = int(told.header["origin"])
    assert told.header["tick"] > CELL
    assert told.numbers("heat").tolist() == heatmap(found, CELL, start=origin, end=origin + 720 * SECOND).tolist()


def test_spells_without_interrupts_are_never_merged() -> None:
    stack = (Function("f", True),)
    rows: list[Row] = [(SECOND + it, 0, Who(1, "a"), stack, SECOND // 99) for it in range(40)]
    rows += [(SECOND + 50, 0, Who(1, "a"), stack, SECOND), (SECOND + 60, 0, Who(1, "a"), stack, SECOND)]
    found = replace(capture(rows, unit="nanoseconds"), hz=99.0)
    merged = rows_of(found, planted(found).leaf, axis_of(found, None), most=10)
    assert sorted(merged.weight.tolist()) == [40 * (SECOND // 99), SECOND, SECOND]
    assert len(merged.long) == 2 and (merged.weight[merged.long] == SECOND).all()


def test_cores_are_told_by_mode_and_unseen_time_as_such() -> None:
    drowning: list[Mapping[str, float]] = [*[{"system": 1.0}] * 8, *[{"user": 0.5, "nice": 0.25}] * 8]
    timeline = node(cores({0: drowning, 12: [{}] * 16}))
    axis = axis_of(capture([]), timeline)
    found = modes(timeline, axis)
    assert found is not None and found.cpus == [0, 12] and found.cell == SECOND // 4
    assert found.shares[0, :8, 1].tolist() == [FULL] * 8
    assert found.shares[0, 8:16, 0].tolist() == [round(0.75 * FULL)] * 8
    assert not found.shares[1, :16].any()
    silent = node([*cores({0: [{}] * 4}), *(read("cpu_idle_seconds_total", "cpu:0", 2000, at) for at in (20, 20.25))])
    gap = modes(silent, axis_of(capture([]), silent))
    assert gap is not None and gap.shares[0, 40].tolist() == [UNSEEN] * 5, "nobody looked for 19 s"


def test_no_core_was_looked_at_twice() -> None:
    timeline = node([read("cpu_idle_seconds_total", "cpu:0", 7, 0), read("load1", "node", 1, 3)])
    assert modes(timeline, axis_of(capture([]), timeline)) is None


def test_curves_show_peaks_and_leave_out_what_never_moved() -> None:
    delays = [
        read("thread_run_delay_seconds_total", f"thread:{name}", at * 0.01, at) for name in "ab" for at in range(9)
    ]
    delays += [read("thread_run_delay_seconds_total", "thread:a", 0.08 + 0.9 + at * 0.01, 9 + at) for at in range(9)]
    flat = [read("softnet_squeezed_total", "cpu:0", 4, at) for at in range(18)]
    timeline = node([*delays, *flat])
    cell, found = curves(timeline, axis_of(capture([]), timeline))
    assert cell == SECOND and [curve.name for curve in found] == ["softirq threads waiting"]
    values = found[0].values[np.isfinite(found[0].values)]
    assert values.max() == pytest.approx(0.91, abs=0.02) and found[0].of == "most of 2"


def test_a_curve_of_longest_waits_knows_nothing_between_two_samples() -> None:
    text = "2.00 s; 0.5 s in all; one in 1 below 16384; from µs: 262144:1"
    rows = [("cgroup:/a", 0.25, 10.0), ("cgroup:/b", 0.5, 10.0), ("cgroup:/a", 0.125, 20.0)]
    waits = [read("cgroup_run_delay_seconds", subject, value, at, text) for subject, value, at in rows]
    timeline = node([*(read("load1", "node", 1, float(at)) for at in range(30)), *waits])
    (found,) = curves(timeline, axis_of(capture([]), timeline))[1]
    known = {at: float(value) for at, value in enumerate(found.values) if np.isfinite(value)}
    assert (found.name, found.of) == ("longest wait to run", "longest of 2")
    assert known == {8: 0.5, 9: 0.5, 18: 0.125, 19: 0.125}


def test_the_scene_has_its_events_its_chain_and_its_case() -> None:
    told = Unpacked(bundle(scene.capture(), scene.timeline(), scene.case())).header
    log = [it for it in told["events"] if it["lane"] == "log"]
    assert [it["start"] for it in log] == [begin + 5 for begin in STALLS] and log[0]["name"] == "nic_tx_stuck"
    case = told["case"]
    chain = [case["findings"][place]["sign"] for place in case["tellings"][0]["chain"]]
    assert chain == list(STAGES)
    finding = next(it for it in told["events"] if it["name"] == "saturated_core")
    assert case["findings"][finding["finding"]]["span"]["start"] == T0 + finding["start"]
    assert told["notes"] == [] and "softirq threads waiting" in [it["name"] for it in told["series"]]


def test_remedies_are_events_of_their_own() -> None:
    done = [
        read("fix_event", "fix:1", 1, at, f"stop_leaking_unit for unit:x\x1b[31m: {word}")
        for at, word in ((5, "begun"), (6, "finished"))
    ]
    timeline = node([*done, *(read("load", "node", 1, float(at)) for at in range(20))])
    told = [it for it in Unpacked(bundle(capture([]), timeline)).header["events"] if it["lane"] == "fix"]
    assert [(it["name"], it["start"]) for it in told] == [("remedies", 5), ("remedies", 6)]
    assert told[1]["text"] == "fix:1: stop_leaking_unit for unit:x\\x1b[31m: finished"


def test_hostile_names_are_harmless_text() -> None:
    told = Unpacked(bundle(scene.capture()))
    for words in (told.words("names"), told.words("comms"), told.words("cgroups")):
        text = "\n".join(words)
        assert "\x1b" not in text and "\\x1b[31m\\xff" in text
    assert len(told.words("names")) == len(told.numbers("kinds"))


def test_what_a_source_does_not_have_is_said() -> None:
    nothing = Unpacked(bundle(capture([]))).header
    assert any(it.startswith("no stacks") for it in nothing["notes"])
    assert any(it.startswith("no readings") for it in nothing["notes"]) and nothing["length"] == 0
    folded = replace(capture([(0, -1, Who(-1, "a"), (Function("f", False),), 3)]), clock="none")
    told = Unpacked(bundle(folded))
    assert any(it.startswith("no times") for it in told.header["notes"]) and told.header["length"] == 0
    assert told.totals(0, 1) == {("a", "f"): 3}
    quiet = Unpacked(bundle(capture([]), Timeline())).header
    assert any("only one sample" in it for it in quiet["notes"])


def test_one_wild_time_makes_coarse_cells_and_not_a_page_of_centuries() -> None:
    rows: list[Row] = [(at, 0, Who(1, "a"), (Function("f", False),), 1) for at in (5, 7, 9 * 10**18)]
    told = Unpacked(bundle(replace(capture(rows), clock="unix")))
    header = told.header
    assert header["length"] // header["cell"] <= 10_000_000 and header["tick"] <= header["cell"]
    assert header["cell"] % header["tick"] == 0 and np.cumsum(told.numbers("at")).max() < 2**32
