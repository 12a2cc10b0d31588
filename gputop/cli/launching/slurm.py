"""``gputop launch --sbatch``: hands a tracked command to Slurm, which runs it on each node of a job."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys

from gputop.errors import EXIT_OK, GputopError, UsageError
from gputop.recipes.nodes import NodeOrder
from gputop.recipes.slurm_script import batch_script
from gputop.terminal_text import printable, strip_controls

SBATCH_S = 60.0


def submit(order: NodeOrder, sbatch: str, rendezvous: str | None) -> int:
    """Submit the command of ``order`` with these options of sbatch, and say how to go on.

    Raises:
        UsageError: there is no command or no Slurm, or an option cannot be read.
        GputopError: Slurm does not take it.
    """
    if not order.command or order.devices is not None:
        raise UsageError("--sbatch takes a command, and Slurm chooses its GPUs.", "Write --sbatch=-N2 -- torchrun … train.py.")
    if shutil.which("sbatch") is None:
        raise UsageError("There is no command 'sbatch' here.", "Run gputop where Slurm's commands can be used.")
    try:
        options = shlex.split(sbatch)
    except ValueError as error:
        raise UsageError(f"--sbatch cannot be read: {str(error).lower()}.", "Close every quote.") from error
    named = [word for name, value in (("--name", order.name), ("--project", order.project)) if value for word in (name, value)]
    tracked = [sys.executable, "-m", "gputop", "run", *named, "--", *order.command]
    words = ["sbatch", "--parsable", f"--chdir={order.cwd}", f"--job-name={order.name or 'gputop'}", *options]
    script = batch_script(tracked, rendezvous)
    try:
        done = subprocess.run(words, input=script.encode(), capture_output=True, timeout=SBATCH_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise GputopError("sbatch does not answer.", "Look with squeue whether it took the job.") from error
    job = done.stdout.decode(errors="replace").strip().partition(";")[0]
    if done.returncode != 0 or not job.isdigit():
        said = strip_controls(done.stderr.decode(errors="replace")).strip().splitlines()
        raise GputopError(f"sbatch failed: {said[-1].rstrip('.?!') if said else 'it names no job'}.", f"Options: {sbatch}")
    print(printable(f"Slurm job {job}: {shlex.join(order.command)}"))
    print(f"  gputop --slurm {job}\n  squeue -j {job}\n  scancel {job}")
    return EXIT_OK
