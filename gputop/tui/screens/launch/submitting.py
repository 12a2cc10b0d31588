"""Messages to the launch screen from threads that start jobs elsewhere, and what happens to a start when the screen ends."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from gputop.errors import GputopError
from gputop.hosts.transport import Transport
from gputop.jobs.store import Job
from gputop.over_hosts.launch import Cancellation
from gputop.recipes.nodes import NodeOrder


class SlurmSaid(Message):
    """Slurm was asked about its jobs. ``problems``: why it did not answer, in sentences."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__()
        self.problems = problems


class Submitted(Message):
    """Slurm accepted a job, or ``error`` says why not. ``problem``: what else went wrong."""

    def __init__(self, job: Job | None, problem: str | None, error: GputopError | None = None) -> None:
        super().__init__()
        self.job = job
        self.problem = problem
        self.error = error


def left_over_hosts(cancellation: Cancellation, order: NodeOrder, hosts: Sequence[str], transport: Transport) -> str:
    """Cancel a launch, unless all hosts have started it; return a sentence on what happens to it."""
    name, look = order.name or order.recipe or order.id, f"gputop jobs {transport.options(hosts)}"
    if cancellation.cancel():
        return f"{name} was being started on {', '.join(hosts)} and is canceled: {look}"
    return f"{name} has been started on {', '.join(hosts)}: {look}"


def left_to_slurm(order: NodeOrder) -> str:
    """Return what happens to a job that Slurm has not accepted yet."""
    return f"{order.name or order.id} is being submitted to Slurm; gputop jobs will list it."
