"""``gputop launch --sbatch``, and messages about the jobs that Slurm supervises."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable

from gputop.errors import EXIT_OK
from gputop.jobs import slurm, slurm_submit
from gputop.jobs.job import Job
from gputop.recipes.nodes import NodeOrder
from gputop.terminal_text import printable

AGAIN_S = 10.0
"""How often to ask Slurm while a log is followed: it serves a whole cluster."""


def submit(order: NodeOrder, sbatch: str, rendezvous: str | None) -> int:
    """Submit the command or the recipe of ``order`` with these options of sbatch, and print the commands to follow or stop it.

    Raises:
        UsageError: there is nothing to run or no Slurm, an option cannot be read, or a recipe trains on one machine only.
        GputopError: Slurm does not accept it.
    """
    job = slurm_submit.submit(order, sbatch, rendezvous)
    assert job.slurm is not None
    print(printable(f"{job.id}: Slurm job {job.slurm.id}: {shlex.join(job.argv)}"))
    print(f"  gputop {order.watching}--slurm {job.slurm.id}\n  gputop logs -f {job.id}\n  gputop stop {job.id}")
    return EXIT_OK


def refresh(jobs: Iterable[Job]) -> None:
    """Ask Slurm about its jobs; report on standard error why it did not answer."""
    for problem in slurm.refresh(jobs):
        print(printable(f"{problem} Its jobs are listed as last known."), file=sys.stderr)
