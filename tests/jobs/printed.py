"""What a job has printed, for tests."""

from __future__ import annotations

from gputop.jobs.output.logs import LogFollower


def printed_lines(job_id: str, label: str | None = None) -> tuple[str, ...]:
    """Return the lines at the end of a job's output, with one that is still being written."""
    follower = LogFollower(job_id, label)
    lines = follower.poll()
    return (*lines, follower.pending) if follower.pending else tuple(lines)
