"""What made a pod, as its name shows: the controllers of Kubernetes name their pods in ways of their own.

NAME-HASH-RANDOM     a ReplicaSet of Deployment NAME. The hash is the decimal digits of a 32-bit number, each written as
                     one of ten letters (ComputeHash and SafeEncodeString): no other word looks like that
NAME-MINUTES-RANDOM  a Job of CronJob NAME; the minutes since 1970 of its schedule (since 1.21)
NAME-RANDOM          a DaemonSet, a Job or a ReplicaSet: which of them, the name does not show
Everything else may be anything: NAME-0 is a StatefulSet's, or what somebody wrote.
"""

from __future__ import annotations

import re

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_DIGITS = str.maketrans("456789bcdf", "0123456789")
_LARGEST = 0xFFFFFFFF  # of the hash, FNV-1a
_DEPLOYMENT = re.compile(rf"(.+)-([456789bcdf]{{6,10}})-{_RANDOM}")
_CRON_JOB = re.compile(rf"(.+)-(\d{{8}})-{_RANDOM}")
_OTHER = re.compile(rf"(.+)-{_RANDOM}")
_NAMED = re.compile(r" of pod [a-z0-9-]{1,63}/([a-z0-9.-]{1,253})")


def by_name(pod: str) -> str:
    """In words: `Deployment web`; empty where the name shows nothing."""
    if (found := _DEPLOYMENT.fullmatch(pod)) and int(found[2].translate(_DIGITS)) <= _LARGEST:
        return f"Deployment {found[1]}"
    if found := _CRON_JOB.fullmatch(pod):
        return f"CronJob {found[1]}"
    if found := _OTHER.fullmatch(pod):
        return f"DaemonSet, Job or ReplicaSet {found[1]}"
    return ""


def with_owner(words: str) -> str:
    """A description that names a pod, with what made that pod beside it."""
    return _NAMED.sub(lambda found: found[0] + in_brackets(found[1]), words, count=1)


def in_brackets(pod: str) -> str:
    """It is read off the name, and said so."""
    made = by_name(pod)
    return f" ({made}, by its name)" if made else ""
