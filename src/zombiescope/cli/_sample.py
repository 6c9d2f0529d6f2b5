"""--sample: the recording that comes with the tool, instead of one of yours."""

from __future__ import annotations

import argparse
import os

from zombiescope.core import UserError
from zombiescope.places.sample import SAMPLE

ABOUT = "the sample: a minute of a real incident, made by the lab; only the driver's log lines are injected"


def add_sample(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sample", action="store_true", help="the recording that comes with zombiescope: a minute of a real incident"
    )


def sample_folder(*others: object) -> str:
    """The folder of the sample; `others` are arguments that name something else to read."""
    if any(others):
        raise UserError("--sample is a recording of its own: leave out the others, or --sample")
    if not os.path.isdir(SAMPLE):
        raise UserError("this package comes without the sample: record a machine of yours, `zombiescope record ./rec`")
    return SAMPLE
