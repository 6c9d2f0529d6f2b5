"""Make the recording that comes with the tool, for `diagnose --sample` and `view --sample`: the incident, for a minute.

    python -m zombiescope.lab._sample FOLDER      # root; an idle machine; about two minutes

The incident really happens here, as in the demo. At first an agent crash-loops beside 20,000 dying cgroups and nothing
starves; after QUIET seconds a process begins to walk them, and the card resets (these log lines alone are injected).
Readings and samples stay as they were recorded. Changed are names that say on which machine it was made: the node's,
its boot id, and those of processes that are neither the kernel's nor the lab's.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack

import pyarrow as pa

from zombiescope.core import UserError
from zombiescope.lab._loads import load as job
from zombiescope.lab._scenario import PREFIX, missing, name_for
from zombiescope.lab._walker import known_cgroups
from zombiescope.members.rooms import load
from zombiescope.places.own_folders import LAB_ENVIRONMENT
from zombiescope.places.own_python import FOLDER, environment, own_python
from zombiescope.recorder.layout import FIRST, KINDS, LAST, META, file_name, is_segment
from zombiescope.recorder.schemas import SCHEMAS, WHOLE

INCIDENT = load("lab", "pinterest")
COMMAND = own_python("zombiescope")
QUIET, WALKED = 15.0, 45.0  # seconds: what a difference is taken against; three resets
STILL, PATIENCE = 5.0, 12  # seconds in which more must come than go, and how often that is tried
JOB = "0.4"  # cores of a job that starves
NODE, NO_BOOT = "sample-node", "00000000-0000-0000-0000-000000000000"
OTHER = "other"  # instead of the name of a process that is neither the kernel's nor the lab's
# Threads of the kernel, what the lab starts, and what systemd and a shell run for it.
_KEPT = re.compile(
    r"(kworker|ksoftirqd|migration|rcu|cpuhp|idle_inject|kthread|khugepaged|kswapd|kcompactd|kdevtmpfs|kauditd|jbd2|"
    r"ext4|scsi|watchdog|irq|napi|md|blk|swapper|mm_percpu|pool_workqueue|oom_reaper|writeback|kblockd|kdamond|"
    r"systemd|dbus|sh$|zslab-|zombiescope|\?$)"
)
_PROCESS = re.compile(r"\b(process|thread|task):(.*)\[(\d+)\]$", re.DOTALL)


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print((__doc__ or "").split("\n\n")[1].strip(), file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what it made is removed then too
    try:
        make(argv[0])
    except UserError as error:
        print(f"sample: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def make(folder: str) -> None:
    if lacking := missing(INCIDENT.NEEDS):
        raise UserError("the incident is made for real, and needs " + "; ".join(lacking))
    if os.path.exists(folder):
        raise UserError(f"{folder}: exists already")
    with tempfile.TemporaryDirectory(prefix=f"{name_for('sample')}-", dir="/var/tmp") as scratch, ExitStack() as undo:
        recording = f"{scratch}/recording"
        recorder: list[subprocess.Popen[bytes]] = []

        def begin() -> None:
            _wait_for_others()
            undo.enter_context(job("job", JOB))
            words = ("record", recording, "--for", f"{QUIET + WALKED:g}s", "--hz", "99", "--set", "kmsg.PAST=0")
            environ = environment() | {LAB_ENVIRONMENT: "1"}
            recorder.append(subprocess.Popen([*COMMAND, *words], cwd=FOLDER, env=environ))
            time.sleep(QUIET)

        with INCIDENT.incident(folder=scratch, before_walk=begin) as fault:
            print(fault.says, file=sys.stderr)
            if recorder[0].wait():
                raise UserError("it could not be recorded")
        neutral(recording, folder)


def _wait_for_others() -> None:
    """Until dying cgroups of what ran here before are released: they would hide the leak."""
    for _ in range(PATIENCE):
        before = known_cgroups()
        time.sleep(STILL)
        if known_cgroups() > before:
            return


def neutral(recording: str, folder: str) -> None:
    """A copy that says nothing of the machine it was made on but its kernel and its cores."""
    segments = [it for it in sorted(os.listdir(recording)) if is_segment(it)]
    files = [f"{segment}/{file_name(kind, head=False)}" for segment in segments for kind in KINDS]
    if lacking := [it for it in files if not os.path.exists(f"{recording}/{it}")]:
        raise UserError(f"the machine was too busy to settle the recording ({lacking[0]} is missing): try again")
    os.makedirs(folder)
    with open(f"{recording}/{META}") as file:
        meta = json.load(file)
    own = meta["node"]
    with open(f"{folder}/{META}", "w") as file:
        json.dump(meta | {"node": NODE, "boot_id": NO_BOOT}, file, indent=1)
    for segment in segments:
        os.mkdir(f"{folder}/{segment}")
        for kind in KINDS:
            name = f"{segment}/{file_name(kind, head=False)}"
            _rewritten(f"{recording}/{name}", f"{folder}/{name}", kind, lambda word: _name(word, own))


def _name(word: str, node: str) -> str:
    if word.startswith(("comm\0",)):
        said = word.removeprefix("comm\0")
        return said if _KEPT.match(said) else OTHER
    found = _PROCESS.search(word)
    if found and not _KEPT.match(found[2]):
        word = f"{word[: found.start(2)]}{OTHER}[{found[3]}]"
    return re.sub(rf"\b{re.escape(node)}\b", NODE, word) if PREFIX not in word else word


def _rewritten(path: str, to: str, kind: str, rename: Callable[[str], str]) -> None:
    table = pa.ipc.open_stream(path).read_all().unify_dictionaries().combine_chunks()
    columns = []
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_dictionary(column.type):
            mark = "comm\0" if name == "comm" else ""
            words = [it if it is None else rename(f"{mark}{it}") for it in column.dictionary.to_pylist()]
            column = _encoded([None if it is None else words[it] for it in column.indices.to_pylist()])
        columns.append(column)
    said = {key: (table.schema.metadata or {})[key] for key in (FIRST, LAST) if key in (table.schema.metadata or {})}
    schema = SCHEMAS[kind].with_metadata(said)
    with pa.OSFile(to, "wb") as file, pa.ipc.new_stream(file, schema, options=WHOLE) as stream:
        stream.write_batch(pa.record_batch(columns, schema=schema))


def _encoded(words: list[str | None]) -> pa.DictionaryArray:
    """Two old names may have become one."""
    codes: dict[str, int] = {}
    indices = [None if it is None else codes.setdefault(it, len(codes)) for it in words]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(codes), pa.string()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
