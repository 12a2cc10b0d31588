"""The batch script of a training over the nodes of a Slurm job: one tracked command per node. Pure text.

Slurm itself supervises the job: it keeps the output and ends all processes. The script tells torchrun the number of nodes and
where they meet, through PET_ variables, unless the command says so itself. If the nodes share gputop's directory of the job,
each rank prints to its own file there, and the script writes its exit code there, because Slurm may forget a job that has
ended. If they do not, everything is in the output that Slurm keeps.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from gputop.recipes.nodes import READ_TIMEOUT_S, has_own_rendezvous, parse_endpoint

_FIRST_NODE = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
_PORT = "$((20000 + SLURM_JOB_ID % 10000))"
"""Jobs that share a node need different ports."""
_STEP = (
    'srun --export=ALL --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --kill-on-bad-exit=1'
    " ${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}"
)
"""A step does not inherit --cpus-per-task from its job (since Slurm 22.05). After sbatch --export=NONE, it would not inherit
the variables of the script either."""
_LOGS = (
    'if test -d "$GPUTOP_SLURM_DIR/nodes"; then '
    'PET_LOG_DIR="$GPUTOP_SLURM_DIR/nodes/$SLURMD_NODENAME"; PET_REDIRECTS=3; mkdir -p "$PET_LOG_DIR" && '
    "export PET_LOG_DIR PET_REDIRECTS; fi"
)
"""One file per rank, as in gputop's own jobs: torchrun's --tee, or one output for all ranks, breaks progress bars."""
_BEGIN = 'test -n "$SLURM_ARRAY_TASK_ID" || rm -f "$GPUTOP_SLURM_DIR/ended.json"'
"""Slurm may restart a job after a node has failed."""
_WAIT = """\
step=$!
for name in TERM USR1 USR2; do trap "kill -$name $step" "$name"; done
while :; do
  wait "$step"
  code=$?
  kill -0 "$step" 2>/dev/null || break
done
if test -z "$SLURM_ARRAY_TASK_ID" && test -d "$GPUTOP_SLURM_DIR"; then
  printf '{"exit_code": %d, "ended_at": %d}\\n' "$code" "$(date +%s)" >"$GPUTOP_SLURM_DIR/.ended" &&
    mv "$GPUTOP_SLURM_DIR/.ended" "$GPUTOP_SLURM_DIR/ended.json"
fi
exit "$code"
"""
"""Signals for the script, as from --signal=B:USR1, are forwarded to the step, as if the script had been replaced by it."""


def batch_script(
    tracked: Sequence[str], rendezvous: str | None, run_id: str, directory: str, variables: Mapping[str, str]
) -> str:
    """Return the script that runs ``tracked``, the whole command of one node, on each node of its job.

    ``directory`` is where gputop keeps the job, if the nodes share it. ``variables`` are the command's. They are not arguments
    of the step, because all users of a node would see those.

    Raises:
        UsageError: ``rendezvous`` is not an address.
    """
    lines = [
        "#!/bin/sh",
        "# Written by gputop launch --sbatch.",
        f'export GPUTOP_RUN_ID="{run_id}${{SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}}"',
        f"export GPUTOP_SLURM_DIR={shlex.quote(directory)}",
        _BEGIN,
    ]
    on_node = _LOGS
    if not has_own_rendezvous(tracked):
        host, port = parse_endpoint(rendezvous) if rendezvous is not None else (_FIRST_NODE, None)
        lines += [
            'export PET_NNODES="$SLURM_NNODES" PET_RDZV_BACKEND=c10d PET_RDZV_ID="$SLURM_JOB_ID"',
            f'PET_RDZV_ENDPOINT="{host}:{port or _PORT}"',
            "export PET_RDZV_ENDPOINT",
        ]
        conf = f'PET_RDZV_CONF="is_host=$((SLURM_NODEID == 0)),read_timeout={READ_TIMEOUT_S}"'
        on_node += f"; {conf}; export PET_RDZV_CONF"
    on_node += '; exec "$@"'
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    step = f"{_STEP} sh -c {shlex.quote(on_node)} sh {shlex.join(tracked)} &"
    return "\n".join([*lines, step, _WAIT])
