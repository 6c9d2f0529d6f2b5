"""Keys of a store: an hour is the unit of shipping, of compaction, and of what is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from zombiescope.fleet.schemas import VERSION

SECONDS = 3600
INCOMING, MANIFESTS = f"incoming/{VERSION}", f"manifests/{VERSION}"
_KEY = re.compile(r"/date=(\d{4})-(\d\d)-(\d\d)/hour=(\d\d)/(?:bucket=\d+/)?([\w.-]{1,80})")
_PARCEL = re.compile(r"([0-9a-f]{16})\.parcel")


@dataclass(frozen=True, slots=True, order=True)
class Hour:
    """By its first second since 1970."""

    start: int

    @property
    def end(self) -> int:
        return self.start + SECONDS

    @property
    def part(self) -> str:
        return datetime.fromtimestamp(self.start, UTC).strftime("date=%Y-%m-%d/hour=%H")


def hour_of(at: float) -> Hour:
    return Hour(int(at) // SECONDS * SECONDS)


def of_key(key: str) -> tuple[Hour, str] | None:
    """The hour and the file's name; None for what is not ours."""
    found = _KEY.search(key)
    if found is None:
        return None
    try:
        at = datetime(int(found[1]), int(found[2]), int(found[3]), int(found[4]), tzinfo=UTC)
    except ValueError:
        return None
    return Hour(int(at.timestamp())), found[5]


def parcel_key(hour: Hour, node: int) -> str:
    return f"{INCOMING}/{hour.part}/{node:016x}.parcel"


def node_of(name: str) -> int | None:
    """Of a parcel's file name."""
    found = _PARCEL.fullmatch(name)
    return int(found[1], 16) if found else None


def manifest_key(hour: Hour, number: int) -> str:
    return f"{MANIFESTS}/{hour.part}/{number:06d}.json"


def table_key(table: str, hour: Hour, bucket: int, name: str) -> str:
    return f"{VERSION}/{table}/{hour.part}/bucket={bucket:02d}/{name}.parquet"


def is_table_key(key: str, table: str, hour: Hour) -> bool:
    """Whether a manifest may name it: a file of that table and hour, and nothing else on this machine."""
    return (
        re.fullmatch(re.escape(f"{VERSION}/{table}/{hour.part}/") + r"bucket=\d{1,6}/[\w-]{1,80}\.parquet", key)
        is not None
    )
