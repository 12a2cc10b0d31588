"""What threads tell the launch screen about Slurm: what it answered, and what became of a job that it was asked to take."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from gputop.errors import GputopError
from gputop.jobs.store import Job


class SlurmSaid(Message):
    """Slurm was asked about its jobs. ``problems``: what kept it from answering, in sentences."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__()
        self.problems = problems


class Submitted(Message):
    """Slurm took a job, or ``error`` says why not. ``problem``: what went wrong besides."""

    def __init__(self, job: Job | None, problem: str | None, error: GputopError | None = None) -> None:
        super().__init__()
        self.job = job
        self.problem = problem
        self.error = error
