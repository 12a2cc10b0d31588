"""Answers a screen's request for a profile. The code that asks ranks is imported with the first request."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.errors import describe_unexpected
from gputop.profiled import Profile, ProfileQuestion, refused
from gputop.snapshot import Run


def answer_to(question: ProfileQuestion, runs: Sequence[Run]) -> Profile:
    """Ask a rank of a run for a profile, or for its cost. Takes seconds."""
    run = next((run for run in runs if run.run_id == question.run_id), None)
    if run is None:
        return refused(question.run_id, question.run_id, "This run is no longer listed.")
    try:
        from gputop.profiles.asking import ask

        return ask(run, question.steps, go=question.go, rank=question.rank)
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return refused(run.run_id, run.name, f"gputop could not ask: {describe_unexpected(error)}.")
