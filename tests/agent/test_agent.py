"""The whole agent as its user runs it: real processes, real HTTP, killed in every way, told things by signals."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.agent.running import Agent, running
from tests.conftest import COMMAND
from tests.meanwhile import meanwhile
from tests.waiting import until

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
KILLS = int(os.environ.get("ZOMBIESCOPE_KILLS", "3"))


def test_from_start_to_stop(tmp_path: Path) -> None:
    """Ready after less than two seconds of CPU, looks, serves, ends in order with a recording that can be read."""
    prom = tmp_path / "prom"
    prom.mkdir()
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "4000000"}
    with (
        _notified(tmp_path / "notify") as messages,
        running(tmp_path / "rec", "--textfile", str(prom), "--every", "5s", env=env) as agent,
    ):
        until(lambda: messages)
        assert b"READY=1" in messages[0] and _cpu_seconds(agent.process.pid) < 2
        agent.looked()
        families = {it.name for it in text_string_to_metric_families(agent.get("/metrics").decode())}
        assert {"zombiescope_cgroups", "zombiescope_finding", "zombiescope_own_cpu_seconds"} <= families
        assert json.loads(agent.get("/healthz")) == {"healthy": True, "troubles": []}
        case = json.loads(agent.get("/case"))
        assert case["schema"] == 1 and case["verdicts"]
        assert b"# EOF" in agent.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert isinstance(json.loads(agent.get("/findings")), list) and isinstance(
            json.loads(agent.get("/events")), list
        )
        agent.until(lambda: (prom / "zombiescope.prom").exists())
        assert b"zombiescope_last_look_timestamp_seconds" in (prom / "zombiescope.prom").read_bytes()
        assert (prom / "zombiescope.prom").stat().st_mode & 0o777 == 0o644
        # The parent is small: it loads neither numpy nor Arrow.
        maps = Path(f"/proc/{agent.process.pid}/maps").read_text()
        assert "numpy" not in maps and "pyarrow" not in maps
        assert agent.stop() == 0
        until(lambda: b"STOPPING=1" in messages)
        assert b"WATCHDOG=1" in messages
    assert subprocess.run([COMMAND, "info", str(tmp_path / "rec")], capture_output=True).returncode == 0
    assert not (tmp_path / "rec" / "agent").stat().st_mode & 0o077


@contextmanager
def _notified(path: Path) -> Iterator[list[bytes]]:
    """What the service manager is told. It is read at once: a socket holds ten messages, and the rest are lost."""
    messages: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(path))
        door.settimeout(0.1)

        def read(over: threading.Event) -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    messages.append(door.recv(4096))

        with meanwhile(read):
            yield messages


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.long
def test_killed_children_come_back_and_it_says_so(tmp_path: Path) -> None:
    with running(tmp_path, "--every", "5s") as agent:
        agent.looked()
        before = agent.children()
        os.kill(before["recorder"], signal.SIGKILL)
        agent.until(lambda: agent.said("the recorder ended: killed by signal 9"))
        os.kill(before["examiner"], signal.SIGKILL)
        agent.until(lambda: agent.said("the examiner ended: killed by signal 9"))
        agent.until(lambda: set(agent.children()) == {"recorder", "examiner"})
        after = agent.children()
        assert not set(before.values()) & set(after.values())
        assert b"zombiescope_recorder_starts_total 2" in agent.get("/metrics")
        done = agent.get("/metrics")
        agent.until(lambda: agent.get("/metrics") != done)
        agent.looked(2)


def _gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_killed_itself_its_children_end_and_the_next_one_takes_over(tmp_path: Path) -> None:
    for _ in range(KILLS):
        with running(tmp_path, "--every", "5s") as agent:
            agent.until(lambda: len(agent.children()) == 2)
            children = agent.children()
            time.sleep(random.uniform(0, 1.0))
            agent.stop(signal.SIGKILL)
            for pid in children.values():
                until(partial(_gone, pid))
    with running(tmp_path, "--every", "5s") as agent:
        agent.looked()


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as agent:
        assert agent.port
        second = Agent(tmp_path)
        assert second.process.wait(20) == 2
        second.close()
        assert "another agent runs here" in "".join(second.log)


def test_reload(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('every = "50s"\n')
    with running(tmp_path / "rec", "--config", str(file)) as agent:
        agent.until(lambda: len(agent.children()) == 2)
        recorder = agent.children()["recorder"]
        file.write_text("evry = 1\n")
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: agent.said("not reloaded, the old settings stay: .*no such key: evry"))
        file.write_text('every = "5s"\nbudget = "5%"\nmetrics-listen = "127.0.0.1:0"\n')
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: agent.said('"reloaded"'))
        agent.until(lambda: agent.children().get("recorder", recorder) != recorder)
        meta = tmp_path / "rec" / "meta.json"
        agent.until(lambda: meta.exists() and json.loads(meta.read_text())["budget"] == 0.03)  # the rest is for looks
        assert len([line for line in agent.log if "listens on http" in line]) == 2
        agent.until(lambda: b"zombiescope_look_interval_seconds 5" in agent.get("/metrics"))


def test_without_a_port(tmp_path: Path) -> None:
    with running(tmp_path, listen="") as agent:
        agent.until(lambda: agent.said("records into"))
        assert not agent.said("listens on http") and not (tmp_path / "agent/token").exists()
        assert agent.stop(signal.SIGINT) == 0


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        agent = Agent(tmp_path, listen=f"127.0.0.1:{taken.getsockname()[1]}")
        assert agent.process.wait(20) == 2
        agent.close()
    assert "cannot listen on" in "".join(agent.log)


def test_check_says_what_is_blind() -> None:
    done = subprocess.run([COMMAND, "agent", "--check"], capture_output=True, text=True)
    assert done.returncode in (0, 3) and "CAP_PERFMON" in done.stdout and "signs can look here" in done.stdout
    less = subprocess.run(
        ["setpriv", "--bounding-set=-all", COMMAND, "agent", "--check"], capture_output=True, text=True
    )
    if os.geteuid() == 0:
        assert less.stdout.count("LACKS") == 8 and less.stdout.count("blind\t") > done.stdout.count("blind\t")
