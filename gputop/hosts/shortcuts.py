"""``--slurm`` and ``--pods``: the hosts of a Slurm job and the pods of a label, and the command that reaches them.

Slurm and Kubernetes are asked by their own commands, as the user set them up. What they print are names, and nothing else is
made of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from gputop.errors import GputopError, UsageError
from gputop.hosts.names import parse_hosts
from gputop.terminal_text import printable, strip_controls

ANSWER_S = 30.0
"""How long the commands may take: a controller that is down is waited for about 10 s."""
PODS_VIA = "kubectl exec -i {host} --"
_JOB = re.compile(r"\d{1,12}([_+]\d{1,9})?")


def slurm_via(job: str) -> str:
    """Return what reaches a node of a Slurm job: a step of the job's own, which takes nothing from it.

    Raises:
        UsageError: that is no job's id.
    """
    if not _JOB.fullmatch(job):
        raise UsageError(f"{printable(job)!r} is no id of a Slurm job.", "squeue --me lists yours.")
    return f"srun --overlap --quiet --jobid {job} -N1 -n1 -w {{host}}"


def slurm_hosts(job: str) -> tuple[str, ...]:
    """Return the nodes of a Slurm job, also of an array of jobs.

    Raises:
        UsageError: that is no job's id, or Slurm's commands are not here.
        GputopError: Slurm knows no such job, or it has no nodes yet.
    """
    slurm_via(job)
    states, nodes = [], []
    for line in _printed(["squeue", "--noheader", "--jobs", job, "--format", "%T|%N"], "Slurm's commands"):
        state, _, listed = line.partition("|")
        states.append(state.strip())
        if listed.strip() and state.strip() not in ("PENDING", "COMPLETING"):
            nodes.append(listed.strip())
    if not nodes:
        known = f"is {states[0]}: it has no nodes" if states else "has ended, or there is none"
        raise GputopError(f"Slurm job {job} {known}.", "squeue --me lists your jobs.")
    expanded = (name for part in nodes for name in _printed(["scontrol", "show", "hostnames", part], "Slurm's commands"))
    return parse_hosts(",".join(expanded))


def pods_hosts(selector: str) -> tuple[str, ...]:
    """Return the names of the running pods of a label selector, in the namespace that kubectl uses.

    Raises:
        UsageError: kubectl is not here.
        GputopError: kubectl fails, or no pod fits.
    """
    words = ["kubectl", "get", "pods", f"--selector={selector}", "--field-selector=status.phase=Running", "--output=name"]
    names = [line.strip().removeprefix("pod/") for line in _printed(words, "kubectl")]
    if not names:
        raise GputopError(f"No running pod fits {selector!r}.", "kubectl get pods --show-labels lists them.")
    return parse_hosts(",".join(names))


def _printed(words: Sequence[str], what: str) -> list[str]:
    """Return the lines that a command prints."""
    if shutil.which(words[0]) is None:
        raise UsageError(f"There is no command {words[0]!r} here.", f"Run gputop where {what} can be used.")
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise GputopError(f"{words[0]} does not answer.", "Try it by itself.") from error
    except OSError as error:
        raise GputopError(f"{words[0]} cannot be started: {error.strerror}.", "Check the command.") from error
    if done.returncode != 0:
        said = strip_controls(done.stderr.decode(errors="replace")).strip().splitlines()
        why = said[-1].rstrip(".?!") if said else f"exit code {done.returncode}"
        raise GputopError(f"{words[0]} failed: {why}.", f"Try it by itself: {' '.join(words)}")
    return [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
