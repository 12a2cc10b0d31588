"""What threads tell the launch screen of whom it asked to start a job, and what becomes of that if the screen ends before."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from gputop.errors import GputopError
from gputop.jobs.store import Job
from gputop.over_hosts.launch import CallOff
from gputop.recipes.nodes import NodeOrder


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


def left_over_hosts(off: CallOff, order: NodeOrder, hosts: Sequence[str]) -> str:
    """Call a launch off that not all hosts have started; return what becomes of it."""
    name, where = order.name or order.recipe or order.id, ",".join(hosts)
    if off.call():
        return f"{name} was being started on {', '.join(hosts)} and is called off: gputop jobs -H {where}"
    return f"{name} has been started on {', '.join(hosts)}: gputop jobs -H {where}"


def left_to_slurm(order: NodeOrder) -> str:
    """Return what becomes of a job that Slurm has not taken yet."""
    return f"Slurm is being asked to take {order.name or order.id}; gputop jobs lists it then."
