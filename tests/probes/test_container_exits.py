"""probes/container_exits: how containers ended, each told once, by the pod's name; nothing odd is believed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.core import Host, Reading, Unparsable, Unreadable
from zombiescope.probes import container_exits
from zombiescope.probes.container_exits import PAST, parse

# As containerd 1.6.20 wrote it for a container of the kubelet 1.20.2 that ran `sleep 1; exit 5`.
STATUS = (
    '{"Version":"v1","Pid":0,"CreatedAt":1794896498124357235,"StartedAt":1794896498352293811,'
    '"FinishedAt":1794896499740173659,"ExitCode":5,"Reason":"","Message":"",'
    '"Resources":{"linux":{"cpu_period":100000,"cpu_shares":2,"oom_score_adj":1000}}}'
)
AT = 1794896499.740173659
ID, OTHER = "ee" * 32, "0a" * 32
FOLDER = "var/lib/containerd/io.containerd.grpc.v1.cri/containers"
SUBJECT = "container:default/crasher/web"


def runs(**more: object) -> str:
    return json.dumps(json.loads(STATUS) | {"FinishedAt": 0, "ExitCode": 0} | more)


def node(folder: Path, statuses: dict[str, str], now: float = AT + 60) -> Host:
    logs = folder / "var/log/containers"
    logs.mkdir(parents=True, exist_ok=True)
    for name in (f"crasher_default_web-{ID}.log", "not_a_log", f"a_b_c_d-{OTHER}.log"):
        if not (logs / name).is_symlink():
            (logs / name).symlink_to("/nowhere")
    (folder / "at").write_text(str(now))
    for name, text in statuses.items():
        (folder / FOLDER / name).mkdir(parents=True, exist_ok=True)
        (folder / FOLDER / name / "status").write_text(text)
    return Host(str(folder))


def told(host: Host) -> list[Reading]:
    found = list(container_exits.read(host))
    assert all(isinstance(it, Reading) for it in found)
    return [it for it in found if isinstance(it, Reading)]


def test_an_end_is_told_at_its_own_time_by_the_pod_s_name(tmp_path: Path) -> None:
    (only,) = told(node(tmp_path, {ID: STATUS, OTHER: runs(), "metadata": STATUS}))
    assert (only.what, only.subject, only.value, only.text) == ("container_exit", SUBJECT, 5, "exit code 5 after 1.4 s")
    assert only.at == pytest.approx(AT) and only.source == f"/{FOLDER}/{ID}/status"


def test_without_its_log_it_has_its_id(tmp_path: Path) -> None:
    (only,) = told(node(tmp_path, {OTHER: STATUS}))
    assert only.subject == f"container:{OTHER}"


def test_each_end_is_told_once(tmp_path: Path) -> None:
    host = node(tmp_path, {ID: runs()})
    with container_exits.watch(host) as look:
        assert not list(look())
        node(tmp_path, {ID: STATUS})
        os.utime(tmp_path / FOLDER / ID / "status", ns=(1, 1))
        assert [it.value for it in look() if isinstance(it, Reading)] == [5]
        assert not list(look())


def test_what_ended_long_ago_is_not_news(tmp_path: Path) -> None:
    assert not list(told(node(tmp_path, {ID: STATUS}, now=AT + PAST + 1)))


def test_a_clock_that_was_set_back_makes_no_future(tmp_path: Path) -> None:
    (only,) = told(node(tmp_path, {ID: STATUS}, now=AT - 100))
    assert only.at == pytest.approx(AT - 100)


def test_out_of_memory() -> None:
    told = parse(json.dumps(json.loads(STATUS) | {"ExitCode": 137, "Reason": "OOMKilled"}))
    assert told is not None and told.words == "exit code 137, OOMKilled after 1.4 s"


@pytest.mark.parametrize(
    "odd",
    [
        *("", "[]", "{", "7", '{"ExitCode": 1}', "[" * 100_000),
        *(runs(ExitCode=it) for it in ("5", None, True, -1, 1.5, 1 << 70)),
        runs(FinishedAt="soon"),
        runs(StartedAt=[]),
    ],
)
def test_odd_statuses_are_not_understood(odd: str, tmp_path: Path) -> None:
    with pytest.raises(Unparsable):
        parse(odd)
    assert [it.value for it in told(node(tmp_path, {OTHER: odd, ID: STATUS}))] == [5]


ANY = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@given(st.fixed_dictionaries(dict.fromkeys(("ExitCode", "StartedAt", "FinishedAt", "Reason"), ANY)))
def test_any_json_is_taken_or_refused(told: dict[str, object]) -> None:
    with suppress(Unparsable):
        ended = parse(json.dumps(told))
        assert ended is None or (ended.code >= 0 and ended.at > 0 and ended.ran >= 0)


def test_links_and_fifos_are_not_read(tmp_path: Path) -> None:
    host = node(tmp_path, {ID: STATUS})
    (tmp_path / FOLDER / ID / "status").unlink()
    os.mkfifo(tmp_path / FOLDER / ID / "status")
    assert not list(told(host))


def test_a_node_without_containerd(tmp_path: Path) -> None:
    (tmp_path / "proc/2").mkdir(parents=True)
    with pytest.raises(Unreadable, match="no containerd"):
        list(told(Host(str(tmp_path))))
    (tmp_path / "proc/2/comm").write_text("kthreadd\n")
    assert not list(told(Host(str(tmp_path))))
