"""A guest of many cores: the recorder runs there and is killed; does its folder open here, with every core in it?"""

from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from tests.recorder.heads import records, whole

from zombiescope.recorder.head import NAME, RING
from zombiescope.recorder.replay import opened

CORES = 16
BUSY = (3, 11, 15)
SPINNER = "spinner"
PLAN = {"busy": BUSY, "name": SPINNER, "hz": 49, "seconds": 12.3}
_KILLED = -9


def judge_recording(seen: dict[str, Any], folder: Path) -> list[str]:
    """What is wrong, in words."""
    if "error" in seen:
        return [str(seen["error"])]
    if seen["ended"] != _KILLED:
        return [f"the recorder ended with {seen['ended']} before it was killed: {seen['said']}"]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(seen["recording"]))) as packed:
        packed.extractall(folder, filter="data")
    place = str(folder / "recording")
    recorded = opened(place)
    timeline = recorded.timeline()
    wrong = [f"damage: {it}" for it in recorded.damage]
    if seen["cores"] != CORES:
        wrong.append(f"{seen['cores']} cores, not {CORES}")
    (head,) = (it.read_bytes() for it in (folder / "recording").glob("*/head"))
    intact = whole(head)
    if intact < seen["written"]:  # how late it was written depends on how busy the real cores are
        wrong.append(f"{intact:,} bytes are intact, {seen['written']:,} were written before the kill")
    without = [core for core in range(CORES) if not len(timeline.series("cpu_idle_seconds_total", f"cpu:{core}"))]
    if without:
        wrong.append(f"no times of the cores {without}")
    samples = timeline.samples()
    spun = {(int(cpu), samples.whos[who].comm) for cpu, who in zip(samples.cpu, samples.who, strict=True)}
    named = {it.source: json.loads(bytes(it.content)).get("ring") for it in records(head) if it.kind == NAME}
    sampled = {named[it.source] for it in records(head) if it.kind == RING}
    wrong += [f"no sample of core {core}" for core in range(CORES) if core not in sampled]
    wrong += [
        f"core {core} has no sample of {SPINNER}, which ran there" for core in BUSY if (core, SPINNER) not in spun
    ]
    for verb in ("info", "diagnose"):
        asked = [sys.executable, "-m", "zombiescope", verb, place, "--format", "json"]
        told = subprocess.run(asked, capture_output=True, text=True, check=False)
        if told.returncode not in (0, 1, 3) or not json.loads(told.stdout or "{}"):
            wrong.append(f"{verb} ended with {told.returncode}: {told.stderr}")
    return wrong
