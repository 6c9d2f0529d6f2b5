"""The examiner: a process that has all checks loaded, and makes a copy of itself (fork) for each question.

Loading numpy, Arrow and the checks takes 0.5 s of CPU, a look 0.3 s: a process started for each look would double the
cost. A process that looks itself would keep what a look takes at its peak; a copy gives all of it back when it ends.
Looks, what clients ask for, what is sent to a fleet and settling have a lane each, one question at a time: a client's
long range delays no look, nor does a disk that does not answer.

One line of JSON in, {"do": "look", "window": 600, "since": 1794000000.0}; one line out: how many bytes follow it, a
blank, what was said as JSON or {"error": "…"}; then these bytes.
"""

from __future__ import annotations

import gc
import json
import os
import select
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

from zombiescope.agent.apart import Act, Apart
from zombiescope.agent.child import die_with_parent
from zombiescope.core import Host, UserError, harmless
from zombiescope.outputs._exit_codes import BLIND, USAGE
from zombiescope.recorder import own_limits

LOOK, SERVE, SHIP, SETTLE = "look", "serve", "ship", "settle"  # the lanes
# Seconds at idle priority; a look takes less than one on an idle core. A node that is never idle is the normal case.
PATIENCE = {LOOK: 10.0, SERVE: 2.0, SHIP: 60.0, SETTLE: 10.0}
MOST_SECONDS = {LOOK: 120.0, SERVE: 60.0, SHIP: 600.0, SETTLE: 600.0}  # what stands still for longer hangs
# Bytes, beside the 80 MB that the examiner has. A look takes 40 MB; beside programs of many symbols, 150 MB.
MOST_MEMORY = {LOOK: own_limits.MOST_MEMORY, SERVE: 400 << 20, SHIP: 400 << 20, SETTLE: own_limits.MOST_MEMORY}
MOST_CPU = {LOOK: own_limits.MOST_CPU, SERVE: 60, SHIP: 300, SETTLE: 300}  # seconds; SETTLE has many heads


def main(argv: list[str]) -> int:
    folder, parent, *overrides = argv
    die_with_parent(int(parent))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts a thread for each core otherwise
    try:
        from zombiescope.agent import look  # noqa: F401  loaded once, for all copies
        from zombiescope.diagnosis.settings import override
        from zombiescope.members.rooms import members
    except ImportError as error:  # numpy or Arrow is missing, or made for another machine
        print("cannot load what a look needs:", harmless(str(_first_cause(error)), most=200), file=sys.stderr)
        return BLIND
    try:
        override(overrides)
    except UserError as error:
        print(error, file=sys.stderr)
        return USAGE
    for room in ("signs", "laws", "questions", "remedies"):
        members(room)
    gc.collect()
    gc.freeze()  # what is shared with the copies stays shared
    _answer_all(folder)
    return 0


def _first_cause(error: BaseException) -> BaseException:
    """numpy explains on a page what could be wrong, and names what is wrong as the cause."""
    return _first_cause(error.__cause__) if error.__cause__ is not None else error


def _answer_all(folder: str) -> None:
    """Until stdin is closed."""
    lanes: dict[str, tuple[Any, Apart]] = {}  # the number of the question, and the copy at work on it
    arrived = bytearray()
    while True:
        ready, _, _ = select.select([0, *(it.reading for _, it in lanes.values())], [], [], 1.0 if lanes else None)
        if 0 in ready:
            piece = os.read(0, 1 << 16)
            if not piece:
                break
            arrived += piece
        for lane, (number, copy) in list(lanes.items()):
            copy.step(ready=copy.reading in ready)
            if copy.over:
                del lanes[lane]
                _say(copy.head | {"id": number, "do": lane}, copy.body)
        while (end := arrived.find(b"\n")) >= 0:
            asked = json.loads(arrived[:end])
            del arrived[: end + 1]
            lane = asked.get("do", LOOK) if asked.get("do", LOOK) in (LOOK, SHIP, SETTLE) else SERVE
            if lane in lanes:
                _say({"error": "busy", "id": asked.get("id"), "do": lane}, b"")
                continue
            copy = Apart(
                _act(folder, asked),
                patience=PATIENCE[lane],
                most_seconds=MOST_SECONDS[lane],
                most_memory=MOST_MEMORY[lane],
                most_cpu=MOST_CPU[lane],
            )
            if copy.over:
                _say(copy.head | {"id": asked.get("id"), "do": lane}, b"")
            else:
                lanes[lane] = (asked.get("id"), copy)
    for _, copy in lanes.values():
        copy.kill("the agent ended")


def _act(folder: str, asked: Mapping[str, Any]) -> Act:
    if asked.get("do", LOOK) == LOOK:
        from zombiescope.agent.look import look

        return partial(look, folder, float(asked["window"]), float(asked["since"]), asked.get("push"))
    if asked["do"] == SETTLE:
        return partial(_settled, folder)
    if asked["do"] == SHIP:
        from zombiescope.agent.shipped import shipped

        return partial(shipped, folder, asked)
    from zombiescope.agent.served import served

    return partial(served, folder, asked)


def _settled(folder: str) -> tuple[dict[str, Any], bytes]:
    from zombiescope.recorder.settle_segment import settle_finished

    settle_finished(folder, Host())
    return {}, b""


def _say(head: Mapping[str, Any], body: bytes) -> None:
    out = sys.stdout.buffer
    out.write(b"%d %s\n" % (len(body), json.dumps(head).encode()))
    out.write(body)
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
