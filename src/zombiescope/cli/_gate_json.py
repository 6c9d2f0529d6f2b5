"""The gate's report for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TextIO

from zombiescope.cli._gate_report import Report


def write(report: Report, out: TextIO) -> None:
    from zombiescope import __version__

    shown = {
        "zombiescope": __version__,
        "schema": 1,
        "verdict": report.verdict,
        "target": report.target,
        "occasion": report.occasion,
        "system": report.system,
        "kernels": list(report.kernels),
        "at": report.at.timestamp(),
        "seconds": round(report.seconds, 1),
        "rules": [{"rule": it.rule, "state": it.state, "says": it.says} for it in report.rulings],
        "objections": [asdict(it) for it in report.objections()],
        "blind": [
            {"rule": ruling.rule, "source": it.source, "why": it.why}
            for ruling in report.rulings
            for it in ruling.unseen
        ],
    }
    print(json.dumps(shown, indent=1), file=out)
