"""Parts of a question as tasks of a Ray cluster; what comes back is added up here. Ray distributes, and tries again.

A task whose worker is killed, or whose node is lost, runs again elsewhere: it only reads, and the same part always has
the same answer. Each node of the cluster needs this package with its `fleet` extra, in the same version, and must reach
the store: a bucket, or a folder that all of them mount at the same path. This program runs on a node of the cluster.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import pyarrow as pa

from zombiescope import __version__
from zombiescope.core import UserError, harmless
from zombiescope.fleet.partial_sums import Part, Question, answer_of_part, by_files, by_nodes
from zombiescope.fleet.reading import Fleet

EXTRA = "ray"  # of the package
AUTO = "auto"  # the cluster that this machine is a node of
ANSWERS = 5.0  # seconds in which an address has to answer
STALLED = 600.0  # seconds in which no task has ended: a part takes some seconds
TRIES = 5  # of one task: its worker was killed, or its node was lost
TASKS_A_CORE = 4  # so that a slow node does not hold up the others at the end
# How HTTP/2 begins, which Ray's control service speaks, and an empty frame of settings; the answer is such a frame too.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
_SETTINGS = 4  # type of that frame, its fourth byte
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):(?P<port>\d{1,5})")


class RayCluster:
    """An engine for questions of a fleet. That it cannot be used is mostly known when it is made."""

    def __init__(self, address: str) -> None:
        self._address = f"--ray {harmless(address)}"
        found = _ADDRESS.fullmatch(address)
        if address != AUTO and (found is None or not 0 < int(found["port"]) < 65536):
            raise UserError(f"{self._address}: give HOST:PORT of the cluster's head, or auto")
        try:
            import ray
        except ImportError:
            raise UserError(f"--ray needs Ray: pip install 'zombiescope[{EXTRA}]'") from None
        if found is not None:
            answers(found["host"].strip("[]"), int(found["port"]))
        self._ray, self._head = ray, address

    def asked(self, fleet: Fleet, question: Question) -> Sequence[pa.Table]:
        with self._joined() as ray:
            cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
            if question.by_node:  # each reads all files' index, so no more of them than run at once
                parts = by_nodes(fleet, question.table, cores)
            else:
                parts = by_files(fleet, question.table, cores * TASKS_A_CORE)
            return _all_of(ray, fleet.store.url, question, parts)

    @contextmanager
    def _joined(self) -> Iterator[Any]:
        """For one question: as long as it is joined, Ray prints what it has to say, and stdout is for the answer."""
        ray: Any = self._ray
        failures = (ConnectionError, TimeoutError, RuntimeError, ValueError, OSError, ray.exceptions.RayError)
        quiet = {"namespace": "zombiescope", "log_to_driver": False, "logging_level": logging.ERROR}
        ours = not ray.is_initialized()
        with redirect_stdout(sys.stderr):
            try:
                if ours:
                    ray.init(address=self._head, **quiet)
            except failures as error:
                raise UserError(f"{self._address}: {_words(error)}") from None
            try:
                yield ray
            except ray.exceptions.RayError as error:
                raise UserError(f"{self._address}: {_words(error)}") from None
            finally:
                if ours:
                    ray.shutdown()


def answers(host: str, port: int, seconds: float = ANSWERS) -> None:
    """A UserError where nothing listens, or something that is no Ray: Ray itself would try for a minute."""
    where = f"--ray {host}:{port}"
    try:
        with socket.create_connection((host, port), seconds) as door:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return
            door.settimeout(seconds)
            door.sendall(_HELLO)
            said = door.recv(9)
    except TimeoutError:
        raise UserError(f"{where}: no answer in {seconds:g} s") from None
    except OSError as error:
        raise UserError(f"{where}: {(error.strerror or str(error)).lower()}") from None
    if len(said) < 4 or said[3] != _SETTINGS:
        raise UserError(f"{where}: what answers there is not Ray's control service (the head's port, by default 6379)")


def answered_part(url: str, question: Question, part: Part, version: str) -> bytes:
    """What runs on a node of the cluster: a stream of Arrow. Ray's own form of a table would be gone with Ray."""
    if version != __version__:
        raise UserError(f"zombiescope {__version__} is installed on a node of the cluster, {version} asks")
    table = answer_of_part(url, question, part)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    return bytes(out.getvalue())


def _all_of(ray: Any, url: str, question: Question, parts: Sequence[Part]) -> list[pa.Table]:
    run = ray.remote(num_cpus=1, max_retries=TRIES)(answered_part)
    shared = ray.put(question)
    tasks = [run.remote(url, shared, part, __version__) for part in parts]
    left = list(tasks)
    found: dict[Any, bytes] = {}
    try:
        while left:
            ended, left = ray.wait(left, num_returns=1, timeout=STALLED)
            if not ended:
                raise UserError(f"no task of the Ray cluster has ended in {STALLED:.0f} s: are its cores taken?")
            found |= {task: ray.get(task) for task in ended}  # a failure ends it at once
        return [pa.ipc.open_stream(found[task]).read_all() for task in tasks]
    except ray.exceptions.RayTaskError as error:
        raise UserError(f"a task of the Ray cluster failed: {_words(error.cause)}") from None
    finally:
        for task in left:
            ray.cancel(task, force=True)


def _words(error: BaseException) -> str:
    """In one line; Ray writes many."""
    lines = [it.strip() for it in str(error).splitlines() if it.strip()]
    return harmless(" ".join(lines) or type(error).__name__, most=300)
