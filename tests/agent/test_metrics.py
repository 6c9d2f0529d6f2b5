"""Metrics as a real parser and the real promtool read them: names, hostile labels, bounded series, both formats."""

from __future__ import annotations

import math
import re
import subprocess
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import openmetrics, parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from tests.peers import peer

from zombiescope.agent.exposition import Family, written
from zombiescope.agent.families import families
from zombiescope.agent.figures import observed
from zombiescope.agent.histogram import ZERO, Histogram
from zombiescope.agent.metrics import BUCKETS, MOST_RESETS, MOST_UNITS, OTHERS, Metrics, Own
from zombiescope.agent.protobuf import delimited
from zombiescope.profile.wire import fields, numbers, varint

HOSTILE = 'a"} 1\nfake_metric 1'
OWN = Own(
    cpu_seconds=1.5,
    memory={"agent": 20_000_000, "recorder": 30_000_000},
    recorder_up=True,
    recorder_starts=1,
    every=60.0,
    lost={"webhook": 2},
)
# The contract: others' rules and dashboards are written with these names.
PUBLIC = {
    "zombiescope_cgroups": {"controller", "state"},
    "zombiescope_cgroup_stat_read_seconds": {"file"},
    "zombiescope_core_kernel_ratio_max": set(),
    "zombiescope_core_saturated_seconds_total": set(),
    "zombiescope_softirq_delay_seconds_bucket": {"le"},
    "zombiescope_unit_restarts_total": {"unit"},
    "zombiescope_nic_resets_total": {"device", "reason"},
    "zombiescope_finding": {"sign", "severity"},
    "zombiescope_harm_cores": {"sign"},
    "zombiescope_blind_signs": set(),
    "zombiescope_last_look_timestamp_seconds": set(),
    "zombiescope_own_cpu_seconds_total": set(),
    "zombiescope_build_info": {"version", "python"},
}


def look(**figures: Any) -> dict[str, Any]:
    return {
        "span": [1_794_000_000.0, 1_794_000_600.0],
        "cpu_seconds": 0.3,
        "findings": [
            {
                "sign": "crash_looping_unit",
                "subject": "unit:ecs.service",
                "root": True,
                "severity": "warning",
                "harm": {"soon_seconds": 7200.0},
            },
            {
                "sign": "starved_thread",
                "subject": "process:trainer[31]",
                "root": True,
                "severity": "critical",
                "harm": {"soon_seconds": None},
            },
        ],
        "counts": {"crash_looping_unit": {"warning": 1}, "zombie_cgroups": {"info": 2}},
        "harm_cores": {"crash_looping_unit": 0.25},
        "states": {"crash_looping_unit": "found", "zombie_cgroups": "found", "driver_reset": "blind"},
        "figures": {
            "cgroups": [["memory", 240.0, 68_440.0], ["cpu", 100.0, 3.0]],
            "stat_read": {"memory.stat": 0.004},
            "kernel_ratio_max": 0.93,
            "saturated_seconds": 12.5,
            "softirq_delay": {
                "counts": [50, 0, 3, 0, 0, 0, 0, 1, 0, 0, 0],
                "sum": 0.75,
                "fine": [[-57, 3], [-5, 1]],
                "zeros": 50,
            },
            "softirq_wait": {"NET_RX": {"counts": [90, 5, 0, 0, 2, 0, 0, 0, 1], "sum": 1.5}},
            "run_delay": {"burstable": {"counts": [40, 5, 0, 0, 0, 2, 0, 0, 0], "sum": 0.5}},
            "families": [["/docker/<id>", 5000.0, 4000.0], ["/system.slice/run-r<id>.scope", 7.0, None]],
            "cores_idle": 1.25,
            "cores": [["0", 12.25, 12.5], ["1", 0.5, 0.0]],
            "throttled_by_class": {"burstable": 3.0, "system": 0.5},
            "stalled_by_class": {"burstable": 0.25},
            "restarts": {"ecs.service": 1234.0},
            "resets": [["eth0", "poll_starved", 1_794_000_100.0, 1]],
            "throttled_seconds": 3.5,
            "memory_waiting_seconds": 0.5,
        }
        | figures,
    }


def seen(*looks: dict[str, Any]) -> Metrics:
    metrics = Metrics()
    for one in looks:
        metrics.look(one)
    return metrics


def text(metrics: Metrics, *, form: bool = False) -> str:
    return written(families(metrics, OWN), open_metrics=form).decode()


def samples(metrics: Metrics, *, form: bool = False) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    parse = open_metrics if form else parser.text_string_to_metric_families
    every = [it for family in parse(text(metrics, form=form)) for it in family.samples]
    found = {(it.name, tuple(sorted(it.labels.items()))): it.value for it in every}
    assert len(found) == len(every)  # no series twice
    return found


@pytest.mark.parametrize("form", [False, True])
def test_every_public_name_with_its_labels(form: bool) -> None:
    found = samples(seen(look()), form=form)
    labels = {name: {key for key, _ in its} for name, its in found}
    assert {name: labels.get(name) for name in PUBLIC} == PUBLIC


def test_the_two_formats_say_the_same() -> None:
    metrics = seen(look())
    assert samples(metrics) == samples(metrics, form=True)


def test_what_was_never_measured_has_no_series() -> None:
    names = {name for name, _ in samples(Metrics())}
    assert not names & (PUBLIC.keys() - {"zombiescope_own_cpu_seconds_total", "zombiescope_build_info"})
    unread = look(softirq_delay=None, kernel_ratio_max=None, throttled_seconds=None, cgroups=[])
    names = {name for name, _ in samples(seen(unread))}
    assert not names & {"zombiescope_softirq_delay_seconds_bucket", "zombiescope_core_kernel_ratio_max"}
    assert not names & {"zombiescope_cgroups", "zombiescope_cpu_throttled_seconds_total"}


def test_counters_add_what_each_look_brought_and_an_episode_counts_once() -> None:
    grown = look(resets=[["eth0", "poll_starved", 1_794_000_100.0, 3]])
    found = samples(seen(look(), look(), grown))
    assert found["zombiescope_core_saturated_seconds_total", ()] == 37.5
    assert found["zombiescope_nic_resets_total", (("device", "eth0"), ("reason", "poll_starved"))] == 3
    assert found["zombiescope_softirq_delay_seconds_count", ()] == 3 * 54
    assert found["zombiescope_softirq_delay_seconds_bucket", (("le", "0.01"),)] == 3 * 53
    assert found["zombiescope_unit_restarts_total", (("unit", "ecs.service"),)] == 1234


def test_each_core_only_where_it_is_asked_for() -> None:
    metrics = seen(look(), look())
    assert "zombiescope_cpu_" not in text(metrics).replace("zombiescope_cpu_throttled", "")
    every = written(families(metrics, OWN, per_core=True), open_metrics=False).decode()
    assert 'zombiescope_cpu_kernel_seconds_total{cpu="0"} 24.5' in every
    assert 'zombiescope_cpu_saturated_seconds_total{cpu="1"} 0' in every
    found = samples(metrics)
    assert found["zombiescope_cores", ()] == 2 and found["zombiescope_cores_saturated", ()] == 1


def test_families_have_few_names_and_what_is_not_known_has_no_series() -> None:
    metrics = Metrics()
    for turn in range(20):
        metrics.look(look(families=[[f"/made-up-{turn}-{n}", 5.0, 2.0] for n in range(10)]))
        text(metrics)
    labels = {dict(its)["family"] for name, its in samples(metrics) if name == "zombiescope_family_cgroups_dying"}
    assert labels == {OTHERS} and samples(metrics)["zombiescope_family_cgroups_dying", (("family", OTHERS),)] == 20
    found = {its for name, its in samples(seen(look())) if name == "zombiescope_family_cgroups_dying"}
    assert found == {(("family", "/docker/<id>"),)}


@given(st.lists(st.floats(0, 100), max_size=200))
def test_native_buckets_hold_what_they_should(seconds: list[float]) -> None:
    """Read back by the rules of the format: spans, differences, a bucket's bounds."""
    it = Histogram(BUCKETS)
    it.add(observed(np.array(seconds)))
    (family,) = _delimited(delimited([Family("z", "histogram", "says", histograms=(({}, it),))]))
    body = _field(_field(family, 4), 7)
    said = {number: value for number, value in fields(body, "test") if isinstance(value, int)}
    assert said.get(1, 0) == len(seconds) and said.get(7, 0) == sum(one <= ZERO for one in seconds)
    place, at, counts, total = 0, 0, dict[int, int](), 0
    deltas = [it for number, value in fields(body, "test") if number == 13 for it in numbers(body, value, "test")]
    for number, value in fields(body, "test"):
        if number == 12 and isinstance(value, slice):
            span = dict(fields(body[value], "test"))
            place += _unzigzag(int(span.get(1, 0)))  # type: ignore[arg-type]
            for _ in range(int(span[2])):  # type: ignore[arg-type]
                total += _unzigzag(deltas[at])
                counts[place] = total
                place, at = place + 1, at + 1
    assert at == len(deltas)
    for bucket, count in counts.items():
        low, high = 2 ** ((bucket - 1) / 8), 2 ** (bucket / 8)
        inside = sum(low * (1 + 1e-9) < one <= high * (1 - 1e-9) for one in seconds if one > ZERO)
        edge = sum(low * (1 - 1e-9) <= one <= high * (1 + 1e-9) for one in seconds if one > ZERO)
        assert inside <= count <= edge
    assert sum(counts.values()) == sum(one > ZERO for one in seconds)


def _delimited(content: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(content):
        length, at = varint(content, at, len(content), "test")
        found.append(content[at : at + length])
        at += length
    return found


def _field(body: bytes, wanted: int) -> bytes:
    (found,) = (body[value] for number, value in fields(body, "test") if number == wanted and isinstance(value, slice))
    return found


def _unzigzag(value: int) -> int:
    return value >> 1 if not value & 1 else -(value + 1 >> 1)


def test_a_process_is_never_a_label() -> None:
    content = text(seen(look()))
    assert 'subject="unit:ecs.service"' in content and 'subject="process"' in content and "trainer" not in content


def test_series_are_bounded_whatever_the_node_has() -> None:
    metrics = Metrics()
    for turn in range(20):
        metrics.look(
            look(
                restarts={f"unit-{turn}-{n}.service": 5.0 for n in range(50)},
                resets=[[f"eth{turn}-{n}", "unknown", 1_794_000_000.0 + turn, 1] for n in range(50)],
                cgroups=[[f"c{n}", 1.0, 1.0] for n in range(5000)],
            )
        )
    found = samples(metrics)
    assert sum(name == "zombiescope_unit_restarts_total" for name, _ in found) == MOST_UNITS
    assert sum(name == "zombiescope_nic_resets_total" for name, _ in found) == MOST_RESETS
    assert len(found) < 600


@pytest.mark.parametrize("form", [False, True])
def test_a_hostile_name_stays_a_label(form: bool) -> None:
    metrics = seen(
        look(restarts={HOSTILE: 3.0}, resets=[[HOSTILE, HOSTILE, 1.0, 1]], stat_read={"\udcff\x1b[31m": 1.0})
    )
    found = samples(metrics, form=form)
    assert not [name for name, _ in found if not name.startswith("zombiescope_")]
    (unit,) = (labels for name, labels in found if name == "zombiescope_unit_restarts_total")
    assert dict(unit)["unit"] == 'a"} 1\\x0afake_metric 1'


@given(st.text(max_size=300), st.floats(allow_nan=True), st.booleans())
def test_any_text_and_any_number_can_be_read_back(name: str, value: float, form: bool) -> None:
    family = Family("zombiescope_x", "gauge", "Any " + name, (({"a": name, "b": "2"}, value),))
    parse = open_metrics if form else parser.text_string_to_metric_families
    (read,) = parse(written([family], open_metrics=form).decode())
    ((_, labels, number, *_),) = read.samples
    assert labels.keys() == {"a", "b"} and labels["b"] == "2"
    assert number == value or (math.isnan(number) and math.isnan(value))


def test_promtool_has_nothing_to_say() -> None:
    done = subprocess.run(
        [*peer("promtool"), "check", "metrics"], input=text(seen(look())), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_open_metrics_ends_and_names_its_types() -> None:
    content = text(seen(look()), form=True)
    assert content.endswith("\n# EOF\n") and openmetrics is not None
    assert "# TYPE zombiescope_unit_restarts counter" in content and "# TYPE zombiescope_build info" in content
    assert re.search(r"^# TYPE zombiescope_softirq_delay_seconds histogram$", content, re.MULTILINE)
