"""Folders of members and knowledge as users write them: good ones, and every kind of bad one."""

from __future__ import annotations

SIGN = '''"""{summary}

Why it hurts: it does not.
False alarms: none.
"""

from collections.abc import Iterator

from zombiescope.core import Finding
from zombiescope.core.timeline import Timeline

NEEDS = ("mounts",)
MANY = {many}  # a reason


def find(timeline: Timeline) -> Iterator[Finding]:
    for period in timeline.series(NEEDS[0]).runs(above=MANY, lasting=0.0):
        yield Finding(subject="node", span=period.span, says="many mounts", evidence=(period.latest,))
'''
LAW = '''"""Mounts make mounts."""

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # second: at once


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield Ground(kind="place", says="both are mounts", evidence=cause.evidence)
'''
AGENT = """[[agent]]
name = "shipper"
says = "ships logs"
units = ["shipper.service"]
fix = ["systemctl disable shipper"]
references = ["https://example.com"]

[[agent.use]]
kind = "file_exists"
path = "/etc/shipper"
says = "it is configured"
"""


def sign(summary: str = "There are many mounts.", many: int = 100_000) -> str:
    return SIGN.format(summary=summary, many=many)
