"""Jobs that run one after another, so that they can be compared: each waits for those before it.

The waiting is done by each job's supervisor: the series goes on when gputop is quit. A job that fails or is stopped lets
the next one begin all the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputop.errors import UsageError
from gputop.jobs import store
from gputop.jobs.store import Job
from gputop.recipes.catalogue import Launch


def start(launches: Sequence[Launch]) -> list[Job]:
    """Start the first and let the others wait for their turn; return all in their order.

    Raises:
        UsageError: there is nothing to start.
        GputopError: one cannot be started; those before it stay.
    """
    if not launches:
        raise UsageError("There is nothing to start.", "Choose at least one number of GPUs.")
    started: list[Job] = []
    for launch in launches:
        started.append(store.start(launch, after=[job.id for job in started]))
    return started
