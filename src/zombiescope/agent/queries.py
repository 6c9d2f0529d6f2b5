"""A request's query as a question for the examiner. What is not understood is an error, never a guess."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import parse_qsl

MOST_FIELDS = 8
LONGEST = 4096  # characters of a cgroup's path
PROFILE_SECONDS, MOST_PROFILE = 30.0, 3600.0  # as Go's own handler, and at most
PAGE_SECONDS = 600.0
FURTHEST = 10**10  # unix seconds


class BadQuery(Exception):
    """What is wrong with it, for the client."""


def profile(query: str) -> dict[str, Any]:
    """seconds, cpu, comm, cgroup, labels."""
    said = _fields(query, ("seconds", "cpu", "comm", "cgroup", "labels"))
    question: dict[str, Any] = {"do": "profile", "seconds": _seconds(said, PROFILE_SECONDS, MOST_PROFILE)}
    if "cpu" in said:
        if not said["cpu"].isascii() or not said["cpu"].isdecimal() or len(said["cpu"]) > 5:
            raise BadQuery("cpu: not the number of a core")
        question["cpu"] = int(said["cpu"])
    question |= {name: said[name] for name in ("comm", "cgroup") if name in said}
    if said.get("labels", "all") not in ("all", "none"):
        raise BadQuery("labels: all or none")
    return question | ({"labels": "none"} if said.get("labels") == "none" else {})


def page(query: str, most: float) -> dict[str, Any]:
    """seconds (the last ones), or from and to (unix seconds); no more than `most` seconds."""
    said = _fields(query, ("seconds", "from", "to"))
    if "from" not in said and "to" not in said:
        return {"do": "page", "seconds": _seconds(said, PAGE_SECONDS, most)}
    start, end = (_number(said.get(name, ""), name) for name in ("from", "to"))
    if not 0 < start < end < FURTHEST or end - start > most:
        raise BadQuery(f"from and to: unix seconds, from before to, at most {most:.0f} s apart")
    return {"do": "page", "from": start, "to": end}


def parcel(query: str, labels: str, *, clips: bool) -> dict[str, Any]:
    """hour: its first unix second."""
    hour = _number(_fields(query, ("hour",)).get("hour", ""), "hour")
    if not 0 <= hour < FURTHEST or hour % 3600:
        raise BadQuery("hour: the unix second in which an hour begins")
    return {"do": "parcel", "hour": int(hour), "labels": labels, "clips": clips}


def _fields(query: str, known: tuple[str, ...]) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise BadQuery("the query is not understood") from error
    said = dict(pairs)
    if len(said) != len(pairs) or not set(said) <= set(known):
        raise BadQuery(f"the query takes {', '.join(known)}, each once")
    if any(len(it) > LONGEST for it in said.values()):
        raise BadQuery("the query is too long")
    return said


def _seconds(said: dict[str, str], default: float, most: float) -> float:
    value = _number(said["seconds"], "seconds") if "seconds" in said else default
    if not 1 <= value <= most:
        raise BadQuery(f"seconds: from 1 to {most:.0f}")
    return value


def _number(text: str, name: str) -> float:
    try:
        value = float(text) if text.isascii() and len(text) < 24 else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadQuery(f"{name}: not a number")
    return value
