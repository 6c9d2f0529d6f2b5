"""Where the recording is that comes with the tool: a real incident, for those who have no sick node at hand."""

from __future__ import annotations

import os

# Made by `python -m zombiescope.lab._sample`.
SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sample")
