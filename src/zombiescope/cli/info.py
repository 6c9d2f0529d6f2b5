"""What a recording or profile is and holds: format, producer, events or values, span, samples, cores, what is missing.

Of a recording also sizes, rates, gaps, what was blind, and its overhead.
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from zombiescope.cli._arguments import FILE, add_format, add_kallsyms, add_measure, complete
from zombiescope.core import amount, harmless, lasting

if TYPE_CHECKING:
    from zombiescope.cli._files import Asked
    from zombiescope.core.timeline import Timeline
    from zombiescope.recorder.replay import Recording

GAP = 3.0  # seconds without any sample: the recorder was stopped, stalled or starved
EXAMPLES = """examples:
  zombiescope info ./rec                    what is in it, and where it has gaps
  zombiescope info ./rec --format json
  zombiescope info perf.data                which events, how many samples, which names are missing
  zombiescope info heap.pb.gz               which values --value takes

exit codes: 0 shown, 2 usage
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", nargs="+", help="a recording, or one or more files of samples, read as one"
    )
    add_measure(parser)
    add_kallsyms(parser)
    add_format(parser, "text", "json")
    complete(parser, source=FILE, kallsyms=FILE)


def run(args: argparse.Namespace) -> int:
    from zombiescope.cli._files import Asked
    from zombiescope.cli._sources import is_recording

    if len(args.source) > 1 or not is_recording(args.source[0]):
        return _of_samples(args.source, Asked(args.event, args.value, args.kallsyms), args.format)
    from zombiescope.recorder.replay import opened

    recording = opened(args.source[0])
    shown = shape(recording)
    if args.format == "json":
        print(json.dumps(shown, indent=1))
    else:
        _text(shown)
    return 0


def _of_samples(paths: list[str], asked: Asked, form: str) -> int:
    from zombiescope.cli._sources import opened
    from zombiescope.profile import about

    source = opened(*paths, asked=asked)
    missing = about.missing(source.capture)
    if form == "json":
        print(
            json.dumps({"label": harmless(source.label), **about.shape(source.capture), "missing": missing}, indent=1)
        )
        return 0
    print(f"{harmless(source.label)}: {about.line(source.capture)}")
    for kind, said in (("missing", missing), ("note", [harmless(it) for it in source.capture.notes])):
        for text in said:
            print(f"{kind}\t{text}")
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
