"""What diagnose takes while it observes: its share of one core and its memory."""

from __future__ import annotations

from collections.abc import Iterator

from bench._commands import command, weigh

SHORT, LONG = 2.0, 22.0
CORE = 0.02  # of one core
MEMORY = 120e6


def ratios() -> Iterator[tuple[str, float, float, str]]:
    """Two runs of different length differ by observation alone: starting and examining cancel out."""
    pairs = [
        (weigh(*command("diagnose", "--seconds", str(SHORT))), weigh(*command("diagnose", "--seconds", str(LONG))))
        for _ in range(2)
    ]
    share = min(max(long[0] - short[0], 0.0) / (LONG - SHORT) for short, long in pairs)
    memory = max(long[1] for _, long in pairs)
    yield "share of one core against 2 %", share / CORE, 1.0, f"{share:.2%} of one core"
    yield "memory against 120 MB", memory / MEMORY, 1.0, f"{memory / 1e6:.0f} MB resident"
