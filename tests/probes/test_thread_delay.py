"""thread_delay: the kernel threads that others wait for, and what the scheduler counted for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import CANNOT
from tests.probes.machine import damage_in, machine, told, unseen

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.probes import thread_delay
from zombiescope.probes.thread_delay import parse, parse_children

THREADS = {"14": "ksoftirqd/0", "15": "rcu_preempt", "21": "ksoftirqd/1", "22": "kworker/1:0H", "900": "napi/eth0-8193"}


def node(*, children: bool = True, threads: dict[str, str] = THREADS) -> dict[str, str]:
    files = {"proc/2/comm": "kthreadd\n"}
    if children:
        files["proc/2/task/2/children"] = " ".join(threads) + " "
    for pid, name in threads.items():
        files[f"proc/{pid}/comm"] = name + "\n"
        files[f"proc/{pid}/stat"] = f"{pid} ({name}) S 2 0 0 0 -1 69238848" + " 0" * 29 + f" {int(pid) % 2} 0 0 0\n"
        files[f"proc/{pid}/schedstat"] = f"{int(pid) * 10**9} 500000000 7\n"
    return files


def test_parse() -> None:
    assert parse("8272518472 8891487311 190234\n") == (8.272518472, 8.891487311)
    assert parse_children("3 4 15294 ") == ["3", "4", "15294"]


@pytest.mark.parametrize("text", ["", "1 2\n", "1 2 3 4\n", "1 -2 3\n", "1 two 3\n", "1 2 " + "9" * 400])
def test_damage(text: str) -> None:
    assert damage_in(parse, text, "14") == ("/proc/14/schedstat", 1)


def test_children_that_are_no_numbers() -> None:
    with pytest.raises(Unparsable) as caught:
        parse_children("3 ../4")
    assert caught.value.source == "/proc/2/task/2/children"


@pytest.mark.parametrize("children", [True, False])
def test_read(tmp_path: Path, children: bool) -> None:
    # A program that calls itself ksoftirqd is not one.
    false = {
        "proc/77/comm": "ksoftirqd/9\n",
        "proc/77/stat": "77 (ksoftirqd/9) S 1 0\n",
        "proc/77/schedstat": "1 2 3\n",
    }
    seen = told(thread_delay, machine(tmp_path, node(children=children) | false))
    assert {subject for _, subject in seen} == {
        "thread:ksoftirqd/0",
        "thread:ksoftirqd/1",
        "thread:rcu_preempt",
        "thread:napi/eth0-8193",
    }
    assert seen["thread_run_seconds_total", "thread:ksoftirqd/0"] == 14
    assert seen["thread_run_delay_seconds_total", "thread:ksoftirqd/0"] == 0.5


def test_threads_whose_names_were_cut_are_told_apart(tmp_path: Path) -> None:
    seen = told(thread_delay, machine(tmp_path, node(threads={"90": "napi/enp129s0f0", "91": "napi/enp129s0f0"})))
    assert {subject for _, subject in seen} == {"thread:napi/enp129s0f0[90]", "thread:napi/enp129s0f0[91]"}


def test_a_container_is_blind(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="not kthreadd"):
        list(thread_delay.read(machine(tmp_path, node() | {"proc/2/comm": "sh\n"})))


def test_a_kernel_that_does_not_count_is_blind(tmp_path: Path) -> None:
    files = node() | {f"proc/{pid}/schedstat": "0 0 0\n" for pid in THREADS}
    with pytest.raises(Unreadable, match="does not count"):
        list(thread_delay.read(machine(tmp_path, files)))


def test_no_thread_that_we_follow(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="none of the kernel threads"):
        list(thread_delay.read(machine(tmp_path, node(threads={"22": "kworker/1:0H"}))))


def test_more_than_we_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_delay, "MOST", 3)
    host = machine(tmp_path, node())
    assert len(told(thread_delay, host)) == 3 * 2
    assert "1 threads more" in unseen(thread_delay, host)["thread_run_delay_seconds_total"]


def test_the_list_is_kept_and_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machine(tmp_path, node())
    with thread_delay.watch(host) as look:
        assert len(list(look())) == 9
        # The card's thread ended, and a program got its pid: never under the old name once the list is renewed.
        (tmp_path / "proc/900/comm").write_text("java\n")
        (tmp_path / "proc/21/schedstat").unlink()
        assert {it.subject for it in look()} == {"thread:ksoftirqd/0", "thread:rcu_preempt", "thread:napi/eth0-8193"}
    monkeypatch.setattr(thread_delay, "RENEWED", 0.0)
    with thread_delay.watch(host) as look:
        list(look())
        (tmp_path / "proc/14/comm").write_text("java\n")
        assert {it.subject for it in look()} == {"thread:rcu_preempt"}


@pytest.mark.kernel
def test_the_numbers_are_the_kernels() -> None:
    with thread_delay.watch(Host()) as look:
        try:
            seen = [it for it in look() if not isinstance(it, Blind) and it.subject == "thread:ksoftirqd/0"]
        except Unreadable as error:
            pytest.skip(f"{CANNOT}{error}")
        for _ in range(50):  # until it did not run between the two reads
            before: list[Reading] = [
                it for it in look() if isinstance(it, Reading) and it.subject == "thread:ksoftirqd/0"
            ]
            run, delay, _turns = Path(before[0].source).read_text().split()
            if [it.value for it in before] == [int(run) / 1e9, int(delay) / 1e9]:
                break
        else:
            pytest.fail(f"{before} is not {run} {delay}")
    assert len(seen) == 2
    assert Path(before[0].source).with_name("comm").read_text() == "ksoftirqd/0\n"
