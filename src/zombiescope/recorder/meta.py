"""meta.json of a recording, which may come from a stranger: bounded, and of the shape that readers rely on."""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO

from zombiescope.core import UserError, harmless
from zombiescope.processes.opening import regular
from zombiescope.recorder.layout import FORMAT, META, OLDEST_FORMAT

MOST_BYTES = 1 << 20  # ours has some 5 KB


def is_recording(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, META))


def open_regular(path: str) -> BinaryIO:
    """A regular file, open. Its type is known before it is opened: a FIFO would wait, a device might act."""
    return os.fdopen(regular(path), "rb")


def read_meta(path: str) -> dict[str, Any]:
    """What meta.json says; UserError if it is not that of a recording which this version reads."""
    try:
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{path}: larger than {MOST_BYTES:,} bytes: refused")
        meta = json.loads(content)
        number = meta["format"]
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or '').lower()}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from error
    except (KeyError, TypeError):
        raise UserError(f"{path}: not of a recording: it has no format number") from None
    if number not in range(OLDEST_FORMAT, FORMAT + 1):
        number = harmless(str(number), most=100)
        raise UserError(f"{path}: recording format {number} is unknown; this version reads {OLDEST_FORMAT} to {FORMAT}")
    if not _is_ours(meta):
        raise UserError(f"{path}: not of a recording: hz is a number, and gives says in lists what each probe gives")
    return dict(meta)


def _is_ours(meta: dict[str, Any]) -> bool:
    gives = meta.get("gives", {})
    return (
        isinstance(meta.get("hz") or 0, int | float)
        and isinstance(gives, dict)
        and all(isinstance(it, list) and all(isinstance(what, str) for what in it) for it in gives.values())
    )
