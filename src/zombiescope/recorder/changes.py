"""Which readings are written: a value that changed, or that was last written a minute ago.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

from zombiescope.core.model import Reading

MINUTE = 60.0  # seconds after which an unchanged value is written once more


class Changes:
    """What was written last of each series of one head or segment."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Reading] = {}

    def __len__(self) -> int:
        return len(self._last)

    def is_new(self, reading: Reading) -> bool:
        """Whether to write it; it is remembered as written."""
        key = (reading.what, reading.subject)
        last = self._last.get(key)
        if (
            last is not None
            and last.value == reading.value
            and abs(reading.at - last.at) < MINUTE  # also if the clock was set back
            and last.text == reading.text
            and last.source == reading.source
        ):
            return False
        self._last[key] = reading
        return True

    def forget(self, at: float) -> None:
        """What was written more than a minute ago is new whatever it says: most of it is of processes that are gone."""
        self._last = {key: last for key, last in self._last.items() if abs(at - last.at) < MINUTE}

    def written(self, reading: Reading) -> None:
        """It was written, whether or not it is new."""
        self._last[reading.what, reading.subject] = reading
