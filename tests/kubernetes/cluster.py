"""A real API server with its etcd, and the controllers once a test asks for them, on loopback. All of it ends with the
test run.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.kubernetes.apart import NODE, SERVICE
from tests.kubernetes.authority import Authority
from tests.kubernetes.binaries import program
from tests.peers import end

from zombiescope.agent.child import die_with_parent
from zombiescope.kubernetes.access import Access, Kept
from zombiescope.kubernetes.client import Client, Refused

PATIENCE = 90.0  # seconds for a server that is up in seven on an idle machine
ADMIN = "admin"
# A node that is silent is NotReady after 16 s, not 40; its pods stay for the length of a test.
SOONER = ("--use-service-account-credentials=true", "--node-monitor-grace-period=16s", "--pod-eviction-timeout=10m")


@dataclass
class Cluster:
    """A running one; `access` is the administrator's."""

    folder: Path
    port: int
    authority: Authority
    kubeconfig: Path
    audit: Path  # a line for each request that was answered
    address: str = "127.0.0.1"  # where the server listens; 0.0.0.0 where pods must reach it

    def __post_init__(self) -> None:
        self.access = self.user(ADMIN, "system:masters")
        self.client = Client(self.access)
        self._server: subprocess.Popen[bytes] | None = None
        self._controllers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def user(self, name: str, group: str = "") -> Access:
        """Who has a certificate with this name."""
        certificate, key = self.authority.certificate(name, group=group)
        return Access(
            server=self.url,
            ca=Kept(file=str(self.authority.file)),
            certificate=Kept(file=str(certificate)),
            key=Kept(file=str(key)),
        )

    def service_account(self, namespace: str, name: str, folder: Path) -> Access:
        """As a pod has it: a token of its own in a file, which the API server issued."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
        token = self.client.create(path, request).body["status"]["token"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_text(self.authority.file.read_text())
        return Access(server=self.url, ca=Kept(file=f"{folder}/ca.crt"), token=Kept(file=f"{folder}/token"))

    def node(self, name: str) -> None:
        """A node that has reported ready, as a kubelet would."""
        self.client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "",
            "lastHeartbeatTime": moment,
        }
        self.client.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})

    def conditions(self, node: str) -> dict[str, dict[str, Any]]:
        told = self.client.get(f"/api/v1/nodes/{node}").body["status"].get("conditions", [])
        return {it["type"]: it for it in told}

    def events(self, node: str) -> list[dict[str, Any]]:
        found = self.client.get("/api/v1/namespaces/default/events", most=64 << 20).body["items"]
        return [it for it in found if it["involvedObject"].get("name") == node]

    def asked(self, user: str = "") -> list[dict[str, Any]]:
        """What was asked of the server, by whom, from its audit log."""
        lines = self.audit.read_text().splitlines() if self.audit.exists() else []
        told = [json.loads(line) for line in lines if line.endswith("}")]
        return [it for it in told if user in it["user"].get("username", "")]

    def kubectl(self, *argv: str, stdin: str = "", expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        command = [program("kubectl"), "--kubeconfig", str(self.kubeconfig), *argv]
        home = {"HOME": str(self.folder)}  # its cache of what the server knows
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, check=False, env=os.environ | home
        )
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        return done

    # The server may be ended and started anew: nothing else of the cluster is lost then.

    def start(self) -> None:
        assert self._server is None
        serving = self.authority.certificate(
            "kube-apiserver",
            alternatives=f"IP:127.0.0.1,IP:{SERVICE},DNS:localhost,DNS:kubernetes,DNS:kubernetes.default",
        )
        key = self.folder / "service-accounts.key"
        if not key.exists():
            subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True, timeout=60)
        policy = self.folder / "audit.json"
        level = {"level": "Metadata", "omitStages": ["RequestReceived"]}
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [level]}))
        self._server = started(
            self.folder / "apiserver.log",
            program("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            *(f"--bind-address={self.address}", f"--secure-port={self.port}", "--authorization-mode=Node,RBAC"),
            *(f"--advertise-address={NODE}", "--kubelet-preferred-address-types=InternalIP"),
            *(f"--tls-cert-file={serving[0]}", f"--tls-private-key-file={serving[1]}"),
            *(f"--client-ca-file={self.authority.file}", f"--cert-dir={self.folder}", "--allow-privileged=true"),
            *("--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://zombiescope.test"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            *("--api-audiences=https://zombiescope.test", f"--audit-policy-file={policy}"),
            *(f"--audit-log-path={self.audit}", "--profiling=false", "--event-ttl=1h"),
        )
        deadline = time.monotonic() + PATIENCE
        while not self._ready():
            said = (self.folder / "apiserver.log").read_text(errors="replace")[-2000:]
            assert self._server.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)

    def stop(self) -> None:
        if self._server is not None:
            ended(self._server)
            self._server = None

    def start_controllers(self) -> None:
        """And the scheduler; Lacking if they are not built."""
        if self._controllers:
            return
        usual = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--port=0", f"--cert-dir={self.folder}")
        tokens = f"--service-account-private-key-file={self.folder / 'service-accounts.key'}"
        own = {
            "kube-controller-manager": (tokens, f"--root-ca-file={self.authority.file}", *SOONER),
            "kube-scheduler": (),
        }
        for name, options in own.items():
            where = (f"--secure-port={_free_port()}", "--bind-address=127.0.0.1")
            self._controllers.append(started(self.folder / f"{name}.log", program(name), *usual, *where, *options))

    def stop_controllers(self) -> None:
        for process in self._controllers:
            ended(process)

    def signal(self, number: int) -> None:
        assert self._server is not None
        self._server.send_signal(number)

    def cpu_seconds(self) -> float:
        assert self._server is not None
        fields = Path(f"/proc/{self._server.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _ready(self) -> bool:
        try:
            self.client.get("/api/v1/namespaces/default")
            return True
        except Refused:
            return False

    _etcd = 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def started(log: Path, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Ends with us; `env` is added to our own."""
    with open(log, "ab") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=os.environ | (env or {}),
            preexec_fn=partial(die_with_parent, os.getpid()),
        )


def ended(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGCONT)
    end(process, 10)


@contextmanager
def running(address: str = "127.0.0.1", port: int = 0) -> Iterator[Cluster]:
    """Lacking if its programs are not built."""
    etcd, _ = program("etcd"), program("kube-apiserver")
    with tempfile.TemporaryDirectory(prefix="zombiescope-cluster-") as name, ExitStack() as ends:
        folder = Path(name)
        authority = Authority(folder / "pki")
        files = (folder / "kubeconfig", folder / "audit.log")
        cluster = Cluster(folder, port or _free_port(), authority, *files, address)
        cluster._etcd = _free_port()
        peers = f"http://127.0.0.1:{_free_port()}"
        store = started(
            folder / "etcd.log",
            *(etcd, "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync", "--log-level=warn"),
            *("--listen-client-urls", f"http://127.0.0.1:{cluster._etcd}"),
            *("--advertise-client-urls", f"http://127.0.0.1:{cluster._etcd}", "--listen-peer-urls", peers),
            *("--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"),
        )
        ends.callback(ended, store)
        cluster.kubeconfig.write_text(json.dumps(_kubeconfig(cluster)))
        ends.callback(cluster.stop)
        ends.callback(cluster.stop_controllers)
        cluster.start()
        yield cluster


def _kubeconfig(cluster: Cluster) -> dict[str, Any]:
    access = cluster.access
    server = {"server": access.server, "certificate-authority": access.ca.file}
    user = {"client-certificate": access.certificate.file, "client-key": access.key.file}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": ADMIN, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": ADMIN}}],
        "current-context": "test",
    }
