"""``--slurm`` and ``--pods``: the hosts of a Slurm job and the pods of a label, and the command that reaches them.

Slurm and Kubernetes are asked by their own commands, as the user set them up. Their output is used only as names.
"""

from __future__ import annotations

import re

from gputop.errors import GputopError, UsageError
from gputop.hosts.names import parse_hosts
from gputop.programs.asked import printed
from gputop.terminal_text import printable

ANSWER_S = 30.0
"""Time limit for the commands: they wait about 10 s for a controller that is down."""
SLURM = "Slurm's commands"
"""What they are called in an error."""
PODS_VIA = "kubectl exec -i {host} --"
_NO_SUCH_JOB = "Invalid job id"
"""What squeue says about a job that Slurm has forgotten, or never had; of a job that ended just now, it prints nothing."""
_JOB = re.compile(r"\d{1,12}([_+]\d{1,9})?")


def slurm_via(job: str) -> str:
    """Return the command that reaches a node of a Slurm job: a step within the job, which takes nothing from it.

    Raises:
        UsageError: that is not the id of a job.
    """
    if not _JOB.fullmatch(job):
        raise UsageError(f"{printable(job)!r} is not the id of a Slurm job.", "squeue --me lists yours.")
    return f"srun --overlap --quiet --jobid {job} -N1 -n1 -w {{host}}"


def slurm_hosts(job: str) -> tuple[str, ...]:
    """Return the nodes of a Slurm job, also of an array of jobs.

    Raises:
        UsageError: that is not the id of a job, or Slurm's commands are not installed here.
        GputopError: Slurm knows no such job, or it has no nodes yet.
    """
    slurm_via(job)
    states, nodes = [], []
    try:
        lines = printed(["squeue", "--noheader", "--jobs", job, "--format", "%T|%N"], SLURM, ANSWER_S)
    except GputopError as error:
        if _NO_SUCH_JOB not in str(error):
            raise
        lines = []
    for line in lines:
        state, _, listed = line.partition("|")
        states.append(state.strip())
        if listed.strip() and state.strip() not in ("PENDING", "COMPLETING"):
            nodes.append(listed.strip())
    if not nodes:
        known = f"is {states[0]}: it has no nodes" if states else "has ended, or there is none"
        raise GputopError(f"Slurm job {job} {known}.", "squeue --me lists your jobs.")
    expanded = (name for part in nodes for name in printed(["scontrol", "show", "hostnames", part], SLURM, ANSWER_S))
    return parse_hosts(",".join(expanded))


def pods_hosts(selector: str) -> tuple[str, ...]:
    """Return the names of the running pods of a label selector, in the namespace that kubectl uses.

    Raises:
        UsageError: kubectl is not installed here.
        GputopError: kubectl fails, or no pod fits.
    """
    words = ["kubectl", "get", "pods", f"--selector={selector}", "--field-selector=status.phase=Running", "--output=name"]
    names = [line.strip().removeprefix("pod/") for line in printed(words, "kubectl", ANSWER_S)]
    if not names:
        raise GputopError(f"No running pod matches {selector!r}.", "kubectl get pods --show-labels lists them.")
    return parse_hosts(",".join(names))
