"""Starts jobs that run one after another, so that they can be compared.

Each job's supervisor waits for the jobs before it, so the series continues after gputop quits. It also continues after a job
that fails or is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputop.errors import UsageError
from gputop.jobs import store
from gputop.jobs.store import Job
from gputop.recipes.catalogue import Launch


def start(launches: Sequence[Launch]) -> list[Job]:
    """Start the first job and queue the others; return all in order.

    Raises:
        UsageError: there is nothing to start.
        GputopError: a job cannot be started; those before it keep running.
    """
    if not launches:
        raise UsageError("There is nothing to start.", "Choose at least one number of GPUs.")
    started: list[Job] = []
    for launch in launches:
        started.append(store.start(launch, after=[job.id for job in started]))
    return started
