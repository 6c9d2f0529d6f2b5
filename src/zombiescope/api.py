"""For notebooks and scripts: `import zombiescope as zs`. Record, open, diagnose; series and samples as Arrow or pandas.

    case = zs.diagnose(zs.record(seconds=10))
    for cause in case.root_causes:
        print(cause.sign, cause.subject, cause.says)

The same code answers as for the command: what `zs.diagnose` returns is what `zombiescope diagnose` prints.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from zombiescope.core import Case, Finding, Host, Span, Unexplained, UserError, Verdict

if TYPE_CHECKING:
    from zombiescope.core.samples import Ints, Samples
    from zombiescope.core.timeline import Timeline

Time = float | datetime  # unix seconds, or a datetime; one without a zone is UTC
_FORMS = ("arrow", "pandas")


class Recording:
    """What was recorded of one node, in memory or on disk."""

    def __init__(self, timeline: Timeline, node: str = "", kernel: str = "", notes: tuple[str, ...] = ()) -> None:
        self.timeline, self.node, self.kernel = timeline, node, kernel
        self.notes = notes  # what could not be read

    def __repr__(self) -> str:
        start, end = self.span
        return f"<Recording of {self.node or 'a node'}: {end - start} from {start:%Y-%m-%d %H:%M:%S} UTC>"

    @property
    def span(self) -> tuple[datetime, datetime]:
        span = self.timeline.span
        return datetime.fromtimestamp(span.start, UTC), datetime.fromtimestamp(span.end, UTC)

    @property
    def names(self) -> list[str]:
        """The series that were recorded: `cpu_system_seconds_total`, `cgroups_known` …"""
        return self.timeline.whats()

    def series(self, what: str, subject: str | None = None, *, to: str = "arrow") -> Any:
        """One series as a table: at, subject, value, source, text. Of one subject (`cpu:3`), or of all."""
        import pyarrow as pa

        if what not in self.names:
            raise UserError(f"no series {what!r} in this recording; see `names`")
        subjects = self.timeline.subjects(what) if subject is None else [subject]
        found = [self.timeline.series(what, it) for it in subjects]
        rows = [(one, place) for one in found for place in range(len(one))]
        readings = [one.reading(place) for one, place in rows]
        table = pa.table(
            {
                "at": _moments([round(it.at * 1e9) for it in readings]),
                "subject": pa.array([it.subject for it in readings], pa.string()).dictionary_encode(),
                "value": pa.array([it.value for it in readings], pa.float64()),
                "source": pa.array([it.source for it in readings], pa.string()).dictionary_encode(),
                "text": pa.array([it.text for it in readings], pa.string()),
            }
        )
        return _as(table, to)

    def samples(
        self, start: Time | None = None, end: Time | None = None, *, cpu: int | None = None, to: str = "arrow"
    ) -> Any:
        """Stack samples as a table: at, cpu, pid, tid, comm, cgroup, seconds (of a core), stack ("main;read;…")."""
        import numpy as np
        import pyarrow as pa

        found: Samples = self.timeline.samples(_span(start, end), cpu=cpu)
        whos = [found.whos[it] for it in found.who.tolist()]
        stacks = [";".join(found.frames.names(it)) for it in range(len(found.idle))] if len(found) else []
        table = pa.table(
            {
                "at": _moments(found.at),
                "cpu": pa.array(found.cpu),
                "pid": pa.array([it.pid for it in whos], pa.int64()),
                "tid": pa.array(found.tid),
                "comm": pa.array([it.comm for it in whos], pa.string()).dictionary_encode(),
                "cgroup": pa.array([it.cgroup for it in whos], pa.string()).dictionary_encode(),
                "seconds": pa.array(found.weight_seconds),
                "stack": pa.DictionaryArray.from_arrays(
                    pa.array(found.stack.astype(np.int32)), pa.array(stacks, pa.string())
                ),
            }
        )
        return _as(table, to)


class Diagnosis:
    """What was found, with evidence: the same case that the command reports."""

    def __init__(self, case: Case, recording: Recording) -> None:
        self.case, self.recording = case, recording

    def __repr__(self) -> str:
        from zombiescope.outputs._story import headline

        return f"<Diagnosis: {'  '.join(headline(self.case))}>"

    @property
    def root_causes(self) -> list[Finding]:
        return self.case.root_causes

    @property
    def chains(self) -> list[tuple[Finding, ...]]:
        return self.case.chains

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.case.findings

    @property
    def noted(self) -> tuple[Finding, ...]:
        """Found, and harming nobody."""
        return self.case.noted

    @property
    def past(self) -> tuple[Finding, ...]:
        """What ended before the recording began."""
        return self.case.past

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return self.case.verdicts

    @property
    def unexplained(self) -> tuple[Unexplained, ...]:
        return self.case.unexplained

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `zombiescope diagnose --format json`."""
        from zombiescope.outputs.json import shape

        return shape(self.case)

    def to_text(self, *, evidence: bool = False) -> str:
        from zombiescope.outputs import text

        return self._written(text.write_evidence if evidence else text.write)

    def to_html(self) -> str:
        from zombiescope.outputs import html

        return self._written(html.write)

    def _repr_html_(self) -> str:
        """In a notebook: the report, in a frame of its own so that its style stays there."""
        import html

        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0" sandbox></iframe>'

    def _written(self, write: Any) -> str:
        out = io.StringIO()
        write(self.case, self.recording.timeline, out)
        return out.getvalue()


def record(seconds: float = 10.0, *, hz: int = 99) -> Recording:
    """Record this machine in memory; `hz` stack samples a second on each core, 0 for none. Reads only."""
    from zombiescope.cli._looking import name_of
    from zombiescope.recorder.short import record as recorded

    if seconds < 0 or not 0 <= hz <= 999:
        raise UserError("seconds must not be negative, and hz is from 0 to 999")
    host = Host()
    return Recording(recorded(host, seconds, hz=hz).timeline(), *name_of(host))


def open(path: str | os.PathLike[str], start: Time | None = None, end: Time | None = None) -> Recording:  # noqa: A001
    """Open what `zombiescope diagnose` takes: a recording or a part of it, a copied root, a kernel's log."""
    from zombiescope.cli._looking import name_of, recorded_root
    from zombiescope.recorder.log_file import timeline_of_log
    from zombiescope.recorder.meta import is_recording
    from zombiescope.recorder.replay import opened
    from zombiescope.recorder.short import record as recorded

    where = os.fspath(path)
    if os.path.isfile(where):
        timeline, note = timeline_of_log(where)
        return Recording(timeline, notes=(note,))
    if not is_recording(where):
        host = recorded_root(where)
        return Recording(recorded(host, 0.0).timeline(), *name_of(host))
    found = opened(where)
    timeline = found.timeline(_span(start, end))
    return Recording(timeline, str(found.meta.get("node", "")), str(found.meta.get("kernel", "")), tuple(found.damage))


def diagnose(recording: Recording) -> Diagnosis:
    """Run every sign and law over a recording."""
    from zombiescope.diagnosis.examine import examine

    return Diagnosis(examine(recording.timeline, node=recording.node, kernel=recording.kernel), recording)


def _span(start: Time | None, end: Time | None) -> Span | None:
    if start is None and end is None:
        return None
    return Span(0.0 if start is None else _seconds(start), float("inf") if end is None else _seconds(end))


def _seconds(time: Time) -> float:
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return float(time)


def _moments(nanoseconds: Sequence[int] | Ints) -> Any:
    """In microseconds: Python's own datetime holds no less, and Arrow refuses to turn nanoseconds into it."""
    import numpy as np
    import pyarrow as pa

    return pa.array(np.asarray(nanoseconds, np.int64) // 1000).cast(pa.timestamp("us", "UTC"))


def _as(table: Any, to: str) -> Any:
    if to not in _FORMS:
        raise UserError(f"to is one of {', '.join(_FORMS)}, not {to!r}")
    return table if to == "arrow" else table.to_pandas()
