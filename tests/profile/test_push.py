"""Profiles for the servers of others: read back by OpenTelemetry's own messages and by our reader of pprof."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.profile.captures import Row, capture

from zombiescope.cli._sources import opened
from zombiescope.core.samples import Function, Samples, Who
from zombiescope.profile.push import otlp, parca, pyroscope
from zombiescope.profile.push.series import LEFT_OUT, MOST_SERIES, Series, series_of
from zombiescope.profile.wire import fields

SECOND = 10**9
PERIOD = SECOND // 50
T0 = 1_794_000_000 * SECOND
MAIN, WALK = Function("main", False, "/usr/bin/kubelet"), Function("mem_cgroup_nr_lru_pages", True)
POLL, IDLE = Function("net_rx_action", True), Function("default_idle", True)
KUBELET = Who(7, "kubelet", "/system.slice/kubelet.service")
TRAINER = Who(8, 'a"} 1\nfake 1', "/kubepods/pod1/c1")
SWAPPER, SWAPPER1, NAPI = Who(0, "swapper/0"), Who(0, "swapper/1"), Who(40, "napi/eth0-1")


def workload(path: str) -> Mapping[str, str]:
    if path.startswith("/kubepods"):
        return {"namespace": "ml", "pod": "ray-7", "container": "worker"}
    return {"unit": "kubelet.service"} if path else {}


def scene() -> Samples:
    rows: list[Row] = []
    for number in range(50):
        at = T0 + number * PERIOD
        rows += [(at, 3, KUBELET, (MAIN, WALK), PERIOD), (at + 1, 0, TRAINER, (MAIN,), PERIOD)]
        rows += [(at + 2, 1, SWAPPER1, (IDLE,), PERIOD), (at + 3, 0, SWAPPER, (POLL,), PERIOD)]
        rows += [(at + 4, 1, NAPI, (POLL,), 3 * PERIOD)]  # after a time without interrupts: it stands for three
    found = capture(rows, unit="nanoseconds", idle=[(IDLE,)])
    return replace(found, clock="unix", hz=50.0)


def series(accused: tuple[int, ...] = (3,), most: int = 8_000) -> list[Series]:
    return series_of(scene(), (T0, T0 + SECOND), workload, accused, most)


def weight(one: Series) -> int:
    return int(one.samples.weight.sum())


def test_a_series_for_each_workload_and_the_core_of_the_accused() -> None:
    found = {tuple(sorted(it.labels.items())): it for it in series()}
    assert set(found) == {
        (("cpu", "3"), ("unit", "kubelet.service")),
        (("container", "worker"), ("namespace", "ml"), ("pod", "ray-7")),
        (),
    }
    assert {it.service for it in series()} == {"node", "ml/worker", "kubelet.service"}
    assert sum(weight(it) for it in found.values()) == 6 * SECOND  # all but the idle core's
    node = found[()].samples
    names = {node.frames.names(stack) for stack in set(node.stack.tolist())}
    # Interrupts on a core that had nothing else to do, and kernel threads: what other tools leave out.
    assert names == {("swapper", "net_rx_action"), ("napi/eth0-1", "net_rx_action")}
    assert all(len(it.samples.frames.functions) <= 3 for it in found.values())


def test_nothing_is_accused_then_there_is_no_core() -> None:
    assert not [it for it in series(()) if "cpu" in it.labels]
    assert sum(map(weight, series(()))) == 6 * SECOND
    assert series_of(scene(), (T0 - SECOND, T0), workload, ()) == []


def test_many_workloads_are_few_series_and_nothing_is_lost() -> None:
    rows: list[Row] = [
        (T0 + it, it % 4, Who(it, "x", f"/u{it}.service"), (MAIN,), (it + 1) * PERIOD) for it in range(200)
    ]
    every = replace(capture(rows, unit="nanoseconds"), clock="unix", hz=50.0)
    found = series_of(every, (T0, T0 + SECOND), lambda path: {"unit": path[1:]}, (0, 1, 2, 3))
    assert len(found) == MOST_SERIES and sum(map(weight, found)) == sum(row[4] for row in rows)
    assert sum(not it.labels for it in found) == 1
    assert found[0].labels == {} and found[1].labels["unit"] == "u199.service"  # the rest is the largest here


def test_the_rarest_stacks_become_one() -> None:
    rows: list[Row] = [
        (T0 + it, 0, KUBELET, (MAIN, Function(f"f{it}", False)), PERIOD * (1000 - it)) for it in range(900)
    ]
    every = replace(capture(rows, unit="nanoseconds"), clock="unix", hz=50.0)
    (one,) = series_of(every, (T0, T0 + SECOND), lambda _: {}, (), 100)
    assert len(one.samples.frames) == 101 and weight(one) == sum(row[4] for row in rows)
    assert LEFT_OUT in one.samples.frames.functions and Function("f899", False) not in one.samples.frames.functions


def messages(data: bytes, wanted: int) -> list[bytes]:
    return [data[it] for field, it in fields(data, "test") if field == wanted and isinstance(it, slice)]


def labels(series_: bytes) -> dict[str, str]:
    pairs = (messages(it, 1) + messages(it, 2) for it in messages(series_, 1))
    return {name.decode(): text.decode() for name, text in pairs}


def test_pyroscope(tmp_path: Path) -> None:
    request = gzip.decompress(pyroscope.body(series(), "node-a"))
    found = messages(request, 1)
    assert len(found) == 3 and all(labels(it)["__name__"] == "process_cpu" for it in found)
    kubelet = next(it for it in found if labels(it).get("cpu") == "3")
    assert labels(kubelet) == {
        "__name__": "process_cpu",
        "service_name": "kubelet.service",
        "node": "node-a",
        "unit": "kubelet.service",
        "cpu": "3",
    }
    (sample,) = messages(kubelet, 2)
    assert re.fullmatch(rb"[0-9a-f-]{36}", messages(sample, 2)[0])
    _same_as_pprof(messages(sample, 1)[0], tmp_path)


def test_parca(tmp_path: Path) -> None:
    request: dict[str, Any] = json.loads(parca.body(series(), "node-a"))
    assert request["normalized"] is True and len(request["series"]) == 3
    for one in request["series"]:
        named = [it["name"] for it in one["labels"]["labels"]]
        assert len(set(named)) == len(named) and all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", it) for it in named)
    kubelet = next(it for it in request["series"] if {"name": "cpu", "value": "3"} in it["labels"]["labels"])
    _same_as_pprof(gzip.decompress(base64.b64decode(kubelet["samples"][0]["rawProfile"])), tmp_path)


def _same_as_pprof(raw: bytes, folder: Path) -> None:
    """The kubelet's second, with its name as outermost function and without any label."""
    for sample in messages(raw, 2):
        assert not messages(sample, 3)
    (folder / "p").write_bytes(raw)
    read = opened(str(folder / "p")).capture
    assert int(read.weight.sum()) == SECOND and read.origin.measure.startswith("cpu in nanoseconds")
    assert [it.name for it in read.frames[int(read.stack[0])]] == ["kubelet", "main", "mem_cgroup_nr_lru_pages"]


def test_opentelemetry_reads_it_back() -> None:
    service = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = service.ExportProfilesServiceRequest()
    request.ParseFromString(gzip.decompress(otlp.body(series(), "node-a")))
    tables = request.dictionary
    empty = {"mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"}
    assert tables.string_table[0] == "" and all(not getattr(tables, it)[0].ByteSize() for it in empty)
    seen: Counter[tuple[str, ...]] = Counter()
    for resource in request.resource_profiles:
        said = {it.key: it.value.string_value for it in resource.resource.attributes}
        assert said["host.name"] == "node-a" and said["service.name"]
        (profile,) = resource.scope_profiles[0].profiles
        assert profile.period == PERIOD and profile.duration_nano == SECOND and profile.time_unix_nano == T0
        kinds = (profile.sample_type, profile.period_type)
        words = [tables.string_table[it] for kind in kinds for it in (kind.type_strindex, kind.unit_strindex)]
        assert words == ["samples", "count", "cpu", "nanoseconds"]
        for sample in profile.samples:
            assert len(sample.values) == len(sample.timestamps_unix_nano)
            assert all(T0 <= it < T0 + SECOND for it in sample.timestamps_unix_nano)
            places = tables.stack_table[sample.stack_index].location_indices
            lines = [tables.location_table[it].lines[0].function_index for it in places]
            names = [tables.string_table[tables.function_table[it].name_strindex] for it in lines]
            seen[tuple(reversed(names))] += sum(sample.values)
        if "systemd.unit" in said:
            assert said["cpu"] == "3"
    assert seen["kubelet", "main", "mem_cgroup_nr_lru_pages"] == 50
    assert seen["napi/eth0-1", "net_rx_action"] == 150 and seen["swapper", "net_rx_action"] == 50
    assert sum(seen.values()) == 300


def test_hostile_names_end_no_line() -> None:
    trainer = next(it for it in series() if it.labels.get("pod"))
    assert not [it.name for it in trainer.samples.frames.functions if "\n" in it.name]
    hostile = series_of(scene(), (T0, T0 + SECOND), lambda _: {"unit": 'a"} 1\nb\x1b[2J'}, ())
    assert all("\n" not in text and "\x1b" not in text for it in hostile for text in it.labels.values())
    assert np.all(hostile[0].samples.who == 0)
