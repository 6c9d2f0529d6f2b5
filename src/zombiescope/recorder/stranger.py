"""Whether a recording may be a stranger's, read by root: then this machine is asked nothing for it.

It may carry this node's boot id, and addresses and pids that somebody has chosen. Root names the kernel's addresses and
opens files of processes only for what root alone could have written.
"""

from __future__ import annotations

import os
import stat

from zombiescope.members.outside import why_untrusted
from zombiescope.recorder.layout import CARRY, HEAD_FILE, META


def why_stranger(folder: str, segment: str) -> str:
    """The reason to take it for one; empty if there is none, or if we are not root."""
    if os.geteuid() != 0:
        return ""
    if why := why_untrusted(folder):
        return f"not asked by root for a stranger: {why.removeprefix('not trusted by root: ')}"
    for name in (META, CARRY, segment, os.path.join(segment, HEAD_FILE)):
        path = os.path.join(folder, name)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"not asked by root for a stranger: {path}: {(error.strerror or '').lower()}"
        if not roots_alone(found):
            return f"not asked by root for a stranger: {path} is a link, not root's, or others can write to it"
    return ""


def roots_alone(found: os.stat_result) -> bool:
    """Whether only root can have written it, if we are root."""
    return os.geteuid() != 0 or (
        found.st_uid == 0 and not stat.S_ISLNK(found.st_mode) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
