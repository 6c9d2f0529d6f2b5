"""The forms in which metrics are served, and which of them a client wants most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from zombiescope.agent.exposition import OPEN_METRICS, TEXT, Family, written
from zombiescope.agent.protobuf import PROTOBUF, delimited

FORMS = (PROTOBUF, OPEN_METRICS, TEXT)


def best_form(accept: str, offered: Sequence[str]) -> str:
    """By the weights of the client's Accept header; the plain text for one that names none of them."""
    best, most = TEXT, 0.0
    for one in accept.split(",")[:16]:
        kind, *rest = (it.strip() for it in one.split(";"))
        said = dict(it.replace(" ", "").partition("=")[::2] for it in rest)
        weight = 1.0
        with suppress(ValueError):
            weight = float(said.get("q", "1"))
        found = next((it for it in offered if it.partition(";")[0] == kind.lower()), "")
        # Protocol buffers of other messages, or written one by one, are not what we have.
        if found == PROTOBUF and said.get("encoding", "delimited") != "delimited":
            continue
        if found and weight > most:
            best, most = found, weight
    return best


def in_form(families: Iterable[Family], form: str) -> bytes:
    return delimited(families) if form == PROTOBUF else written(families, open_metrics=form == OPEN_METRICS)
