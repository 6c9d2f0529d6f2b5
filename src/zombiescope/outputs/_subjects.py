"""What a finding is about, as people say it: cpu 3, ecs.service, memory cgroups, this node."""

from __future__ import annotations

import re

from zombiescope.core import harmless

_LONG_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{32,64}(?![0-9a-f])")  # shown as docker and kubectl show them
_KINDS = {"raynode": "Ray node", "file": "a read of", "netns": "network namespace"}
_AS_IT_IS = ("unit", "process", "thread", "cgroup", "family", "nic")  # the name says what it is


def in_words(subject: str, *, most: int = 60) -> str:
    """A subject ("kind:name") as the beginning of a sentence."""
    kind, colon, name = subject.partition(":")
    name = _LONG_ID.sub(lambda found: found[0][:12], name)
    if not colon:
        words = "this node" if subject == "node" else subject
    elif kind in _AS_IT_IS:
        words = name
    elif kind == "controller":
        words = f"{name.replace(',', '/')} cgroups"
    else:
        words = f"{_KINDS.get(kind, kind)} {name}"
    return harmless(words, most=most)
