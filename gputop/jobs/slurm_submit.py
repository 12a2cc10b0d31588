"""Submits a tracked command to Slurm, and records the job among gputop's jobs."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gputop.errors import GputopError, UsageError
from gputop.jobs import record, slurm_state, store
from gputop.jobs.job import Job
from gputop.jobs.slurm import ANSWER_S, COMMANDS
from gputop.places import jobs_dir, make_private_dir
from gputop.programs.asked import NoAnswerError, printed
from gputop.recipes import catalogue
from gputop.recipes.nodes import NodeOrder, as_node
from gputop.recipes.own_commands import named_after
from gputop.recipes.slurm_script import batch_script

SBATCH_S = 60.0
"""How long sbatch may take: some sites check each submitted job."""


def submit(order: NodeOrder, sbatch: str, rendezvous: str | None = None) -> Job:
    """Submit the command or the recipe of ``order`` with these options of sbatch; Slurm runs it on each node of the job.

    Raises:
        UsageError: there is nothing to run or no Slurm, an option cannot be read, or a recipe trains on one machine only.
        GputopError: Slurm does not accept it, or the job cannot be recorded.
    """
    if order.devices is not None or not (order.command or order.recipe):
        raise UsageError(
            "With --sbatch, Slurm chooses the GPUs.", "Write --sbatch='-N2 --gpus-per-node=8' -- torchrun … train.py."
        )
    if order.recipe is not None:
        order = _with_command(order, order.recipe)
    try:
        options = shlex.split(sbatch)
    except ValueError as error:
        raise UsageError(f"--sbatch cannot be read: {str(error).lower()}.", "Close every quote.") from error
    name = order.name or named_after(order.command)
    named = [word for key, value in (("--name", order.name), ("--project", order.project)) if value for word in (key, value)]
    tracked = [sys.executable, "-m", "gputop", "run", *named, "--", *order.command]
    directory = jobs_dir() / order.id
    script = batch_script(tracked, rendezvous, order.id, str(directory), order.environment)
    words = ["sbatch", "--parsable", f"--chdir={order.cwd}", f"--job-name={name}", *options]
    try:
        make_private_dir(jobs_dir())
        make_private_dir(directory / record.NODES)
        (directory / record.BATCH).touch(0o600)
        (directory / record.BATCH).write_text(script, "utf-8")
    except OSError as error:
        raise GputopError(f"The job cannot be recorded: {error}.", f"Check that you can write to {jobs_dir()}.") from error
    try:
        job, cluster = _submitted(words, script)
    except NoAnswerError as error:
        raise GputopError(error.message, "Check with squeue whether Slurm accepted the job.") from error
    except GputopError:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    spec = {
        "id": order.id,
        "name": name,
        "argv": list(order.command),
        "cwd": order.cwd,
        "recipe_id": order.recipe,
        "values": {"command": shlex.join(order.command), "sbatch": sbatch},
        "hostname": socket.gethostname(),
        "created_at": time.time(),
        "slurm": {"id": job, "cluster": cluster, "output": _output_of(job, cluster)},
    }
    try:
        record.write_json(directory / record.SPEC, spec)
    except OSError as error:
        raise GputopError(
            f"Slurm accepted job {job}, but it cannot be recorded: {error}.",
            f"Watch it with squeue -j {job}, or cancel it with scancel {job}.",
        ) from error
    return store.find(order.id)


def _with_command(order: NodeOrder, recipe_id: str) -> NodeOrder:
    """Return the order with the recipe's own command, which torchrun starts on every GPU that a node gets."""
    named = {"name": order.name} if order.name else {}
    launch = as_node(catalogue.prepare_elsewhere(catalogue.find(recipe_id), order.virtual, {**named, **order.values}))
    return replace(order, command=launch.argv, environment={**launch.env, **order.environment}, name=launch.name)


def _submitted(words: Sequence[str], script: str) -> tuple[str, str | None]:
    """Return the number that Slurm gives the job, and its cluster if that is not the default one."""
    said = printed(words, COMMANDS, SBATCH_S, sent=script.encode())
    job, _, cluster = (said[-1] if said else "").strip().partition(";")
    if not slurm_state.is_id(job):
        raise GputopError("sbatch printed no job number.", "Check with squeue whether Slurm accepted the job.")
    return job, cluster if slurm_state.is_cluster(cluster) else None


def _output_of(job: str, cluster: str | None) -> str | None:
    """Return the file that the job prints to; None if Slurm does not say."""
    with contextlib.suppress(GputopError):
        words = ["scontrol", *([f"--clusters={cluster}"] if cluster else []), "show", "job", job]
        for line in printed(words, COMMANDS, ANSWER_S):
            key, _, value = line.strip().partition("=")
            if key == "StdOut" and Path(value).is_absolute():
                return value
    return None
