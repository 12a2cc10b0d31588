"""Why a job failed, in the few lines above its log."""

from __future__ import annotations

from gputop.doctor.findings.finding import Finding
from gputop.tui.drawing.line import Line, Span
from gputop.tui.drawing.prose import wrapped


def explanation_lines(failure: Finding | None, columns: int) -> tuple[Line, ...]:
    """Return why a job failed in at most four lines: what failed, the first line of the fix, and where to read more."""
    if failure is None:
        return ()
    fix = next((line for line in failure.fix.splitlines() if line.strip()), "")
    return (
        *wrapped(failure.title, columns, "bad")[:2],
        *wrapped(f"fix: {fix}", columns, "ok", rest="     ")[:1],
        (Span("doctor: more with gputop doctor --log or gputop logs", "dim"),),
    )
