"""The batch script of a training over the nodes of a Slurm job: one tracked command a node. Pure text.

Slurm itself supervises the job: it keeps the output, and ends all processes. The script tells torchrun how many nodes there are
and where they meet, by its PET_ variables, unless the command says so itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from gputop.recipes.nodes import READ_TIMEOUT_S, has_own_rendezvous, parse_endpoint

_FIRST_NODE = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
_PORT = "$((20000 + SLURM_JOB_ID % 10000))"
"""Jobs that share a node need ports of their own."""
_STEP = (
    'exec srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --kill-on-bad-exit=1'
    " ${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}"
)
"""A step does not take --cpus-per-task from its job (since Slurm 22.05)."""


def batch_script(tracked: Sequence[str], rendezvous: str | None) -> str:
    """Return the script that runs ``tracked``, the whole command of one node, on each node of its job.

    Raises:
        UsageError: ``rendezvous`` is no address.
    """
    lines = ["#!/bin/sh", "# Written by gputop launch --sbatch."]
    words = shlex.join(tracked)
    if not has_own_rendezvous(tracked):
        host, port = parse_endpoint(rendezvous) if rendezvous is not None else (_FIRST_NODE, None)
        lines += [
            'export PET_NNODES="$SLURM_NNODES" PET_RDZV_BACKEND=c10d PET_RDZV_ID="$SLURM_JOB_ID"',
            f'PET_RDZV_ENDPOINT="{host}:{port or _PORT}"',
            "export PET_RDZV_ENDPOINT",
        ]
        conf = f'PET_RDZV_CONF="is_host=$((SLURM_NODEID == 0)),read_timeout={READ_TIMEOUT_S}"'
        words = f"sh -c '{conf}; export PET_RDZV_CONF; exec \"$@\"' sh {words}"
    return "\n".join([*lines, f"{_STEP} {words}", ""])
