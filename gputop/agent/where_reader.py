"""Answers a screen's question where the ranks of a run are. The code that asks ranks is imported with the first question."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from gputop.errors import GputopError, describe_unexpected
from gputop.snapshot import LIVE_STATES, Run
from gputop.whereabouts.records import Whereabouts, WhereQuestion


def answer_to(question: WhereQuestion, runs: Sequence[Run], curves: Collection[str] = ()) -> Whereabouts:
    """Ask the ranks of a run where they are. Takes two seconds, and longer if /proc hangs.

    ``curves``: the ids of runs that are only a curve of an untracked run, with only the ranks that wrote it.
    """
    run = _run_in(question, runs, curves)
    name = run.name if run is not None else question.run_id
    try:
        if run is not None:
            from gputop.where.asking import ask_run

            return replace(ask_run(run), run_id=question.run_id)
        if question.pids:
            from gputop.where.before_steps import ask_launch
            from gputop.where.untracked import ask_processes

            return replace(ask_launch(question.pids) or ask_processes(question.pids), run_id=question.run_id)
        return Whereabouts(question.run_id, name, time.time(), problem="This run is no longer listed")
    except GputopError as error:
        return Whereabouts(question.run_id, name, time.time(), problem=str(error).rstrip("."))
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return Whereabouts(question.run_id, name, time.time(), problem=f"gputop could not ask: {describe_unexpected(error)}")


def _run_in(question: WhereQuestion, runs: Sequence[Run], curves: Collection[str]) -> Run | None:
    """Return the run that is asked about; also the one that the processes have opened since, with their first step."""
    named = next((run for run in runs if run.run_id == question.run_id), None)
    pids = set(question.pids)
    tracked = (run for run in runs if run.run_id not in curves)
    opened = (run for run in tracked for rank in run.ranks if rank.local_pid in pids and rank.state in LIVE_STATES)
    return named or next(opened, None)
