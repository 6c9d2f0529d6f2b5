"""What a recording holds: time span, sizes, rates, gaps, what was blind, and its overhead."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from zombiescope.cli._arguments import FOLDER, add_format, complete
from zombiescope.core import amount, harmless, lasting

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline
    from zombiescope.recorder.replay import Recording

GAP = 3.0  # seconds without any sample: the recorder was stopped, stalled or starved
EXAMPLES = """examples:
  zombiescope info ./rec                    what is in it, and where it has gaps
  zombiescope info ./rec --format json

exit codes: 0 shown, 2 usage
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recording", metavar="RECORDING", help="a folder that `zombiescope record` wrote")
    add_format(parser, "text", "json")
    complete(parser, recording=FOLDER)


def run(args: argparse.Namespace) -> int:
    from zombiescope.recorder.replay import opened

    recording = opened(args.recording)
    shown = shape(recording)
    if args.format == "json":
        print(json.dumps(shown, indent=1))
    else:
        _text(shown)
    return 0


def shape(recording: Recording) -> dict[str, Any]:
    timeline = recording.timeline()
    span, meta = timeline.span, recording.meta
    files = {kind: recording.size(kind) for kind in ("series", "events", "samples", "stacks")}
    rows = {kind: recording.table(kind).num_rows for kind in files}
    cost = timeline.series("recorder_cpu_seconds_total")
    return {
        "node": harmless(str(meta.get("node", ""))),
        "kernel": harmless(str(meta.get("kernel", ""))),
        "hz": meta.get("hz"),
        "span": {"start": span.start, "end": span.end},
        "seconds": round(span.seconds, 3),
        "segments": len(recording.segments),
        "bytes": files,
        "rows": rows,
        "series": sum(len(timeline.subjects(what)) for what in timeline.whats()),
        "gaps": [{"start": start, "seconds": round(length, 3)} for start, length in _gaps(timeline)],
        "blind": _blind(timeline),
        "troubles": _troubles(timeline),
        "damage": [harmless(trouble) for trouble in recording.damage],
        "budget": meta.get("budget") if isinstance(meta.get("budget"), int | float) else None,
        "budget_steps": _budget_steps(timeline),
        "own_cost_ratio": round(_mean_rate(cost.values, cost.at), 5) if len(cost) > 1 else None,
    }


def _mean_rate(values: Any, at: Any) -> float:
    """CPU seconds per second; a restarted recorder counts from 0 again."""
    rises = [after - before if after >= before else after for before, after in pairwise(values)]
    return float(sum(rises)) / max(float(at[-1] - at[0]), 1e-9)


def _gaps(timeline: Timeline) -> list[tuple[float, float]]:
    """Periods without any sample, by the probe that samples most often."""
    looks = max((timeline.looks(what) for what in timeline.looked_for()), key=len, default=None)
    if looks is None or not len(looks):
        return []
    pairs = pairwise(looks.at)
    return [(float(before), float(after - before)) for before, after in pairs if after - before > GAP]


def _blind(timeline: Timeline) -> list[str]:
    reasons = [timeline.looks(what).latest for what in timeline.looked_for() if not timeline.looked(what)]
    return list(dict.fromkeys(f"{harmless(it.source)}: {harmless(it.text)}" for it in reasons))


def _troubles(timeline: Timeline) -> list[str]:
    """What the recorder could not write or remove, each once."""
    said = timeline.series("recorder_trouble")
    return list(dict.fromkeys(harmless(it) for it in said.texts.values()))


def _budget_steps(timeline: Timeline) -> list[dict[str, Any]]:
    """When the recorder did less than it was asked to, or more again, and why."""
    steps = timeline.series("budget_step")
    readings = [steps.reading(place) for place in range(len(steps))]
    return [{"at": it.at, "level": int(it.value), "says": harmless(it.text)} for it in readings]


def _text(shown: dict[str, Any]) -> None:
    since = datetime.fromtimestamp(shown["span"]["start"], UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    long = lasting(shown["seconds"])
    print(f"node {shown['node']}, Linux {shown['kernel']}: {long} from {since}, segments: {shown['segments']}")
    for kind, size in shown["bytes"].items():
        print(f"{kind}\t{shown['rows'][kind]:,} rows\t{amount(size)}")
    day = sum(shown["bytes"].values()) / max(shown["seconds"], 1) * 86400
    print(f"{shown['series']:,} series; {amount(day)} a day at this rate")
    if shown["own_cost_ratio"] is not None:
        print(f"the recorder used {shown['own_cost_ratio']:.2%} of one core")
    for step in shown["budget_steps"]:
        at = datetime.fromtimestamp(step["at"], UTC).strftime("%H:%M:%S")
        print(f"budget\t{at} {step['says']}")
    for gap in shown["gaps"]:
        at = datetime.fromtimestamp(gap["start"], UTC).strftime("%H:%M:%S")
        print(f"gap\t{lasting(gap['seconds'])} from {at}")
    for kind, reasons in (("blind", "blind"), ("trouble", "troubles"), ("damage", "damage")):
        for reason in shown[reasons]:
            print(f"{kind}\t{reason}")
