"""One screen as text, for a pipe or a file: the newest moment, with the look that belongs to it."""

from __future__ import annotations

import select
import time

from zombiescope.top.moments import Moments
from zombiescope.top.screen import View, painted
from zombiescope.top.terminal import state_of
from zombiescope.top.text import plain


def one_screen(moments: Moments, width: int, height: int, *, wait: float) -> str:
    """`wait`: seconds for two samples of what is live."""
    end = time.monotonic() + wait
    while True:
        moments.refresh(time.time())
        if time.monotonic() >= end:
            break
        time.sleep(0.5)
    moments.tend(time.time())
    while moments.reading >= 0:
        ready, _, _ = select.select([moments.reading], [], [], 1.0)
        moments.tend(time.time(), ready=bool(ready))
    view = View(
        node=str(moments.meta.get("node", "")),
        kernel=str(moments.meta.get("kernel", "")),
        state=state_of(moments),
        frame=moments.frame(),
        look=moments.look(),
        pane="",
        message=" ",
    )
    lines = [plain(it) for it in painted(view, width, height)]
    return "\n".join(lines).rstrip()
