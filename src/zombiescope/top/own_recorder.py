"""A recorder of our own, where none runs: a child that records into a private folder, removed when it ends."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import suppress

from zombiescope.core import UserError, harmless
from zombiescope.places.own_python import FOLDER, environment, own_python
from zombiescope.recorder.layout import META
from zombiescope.top.tail import newest_head

HOURS, MOST_BYTES = "1", "300M"  # that can be scrolled back
PATIENCE = 60.0  # seconds for its first record: one on an idle machine
ENDS = 5.0  # seconds to end by itself


class OwnRecorder:
    """A context manager; the child ends with us, however we end."""

    def __init__(self, hz: int) -> None:
        self._hz = hz
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OwnRecorder:
        self._scratch = tempfile.TemporaryDirectory(prefix="zombiescope-top-", ignore_cleanup_errors=True)
        self.folder = os.path.join(self._scratch.name, "recording")
        self._errors = tempfile.TemporaryFile(dir=self._scratch.name)
        words = ("record", self.folder, "--hours", HOURS, "--max-bytes", MOST_BYTES, "--hz", str(self._hz))
        try:
            self._process = subprocess.Popen(
                own_python("zombiescope.agent.child", str(os.getpid()), *words),
                cwd=FOLDER,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C is ours
            )
        except OSError as error:
            self._scratch.cleanup()
            raise UserError(f"no recorder could be started: {(error.strerror or str(error)).lower()}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(ENDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        with suppress(OSError):
            self._errors.close()
        self._scratch.cleanup()

    def ready(self) -> str:
        """Its folder, once something is in it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if os.path.exists(os.path.join(self.folder, META)) and newest_head(self.folder):
                return self.folder
            if trouble := self.trouble():
                raise UserError(trouble)
            time.sleep(0.1)
        raise UserError(f"the recorder has written nothing for {PATIENCE:.0f} s")

    def trouble(self) -> str:
        """Why it ended; empty while it runs."""
        if self._process is None or self._process.poll() is None:
            return ""
        self._errors.seek(0)
        said = self._errors.read(1 << 16).decode(errors="replace").strip().splitlines()
        return f"the recorder ended: {harmless(said[-1]) if said else f'exit code {self._process.returncode}'}"
