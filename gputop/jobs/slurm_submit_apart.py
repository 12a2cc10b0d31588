"""Hands a command to Slurm in a process of its own, which keeps the job also if the screen that asked has ended meanwhile.

The order goes in on standard input, as its variables may be secrets, and the answer comes out as one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gputop.errors import GputopError, UsageError
from gputop.jobs import slurm_submit, store
from gputop.jobs.job import Job
from gputop.recipes.nodes import NodeOrder
from gputop.wire import FormatError, decode, encode, parse_json

_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])
_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from gputop.jobs.slurm_submit_apart import main; sys.exit(main())"
"""Not as ``-m``: folder and environment go on to sbatch, which hands them to the job."""


def submit_apart(order: NodeOrder, sbatch: str) -> Job:
    """Submit as ``slurm_submit.submit`` does, from a process that outlives this one.

    Raises:
        UsageError: there is no command or no Slurm, or an option cannot be read.
        GputopError: Slurm does not take it, or the job cannot be kept.
    """
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, _PACKAGE_PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise GputopError(f"Python cannot be started: {error.strerror}.", "Try again.") from error
    said, _ = process.communicate(json.dumps({"order": encode(order), "sbatch": sbatch}).encode())
    try:
        answer = parse_json(said)
    except FormatError:
        raise GputopError("What hands jobs to Slurm has ended early.", "Look with squeue whether Slurm took it.") from None
    if "job" in answer:
        return store.find(answer["job"])
    raise (UsageError if answer["usage"] else GputopError)(answer["error"], answer["hint"])


def main() -> int:
    """Submit the order of standard input, and print what became of it."""
    wanted = parse_json(sys.stdin.buffer.read())
    try:
        answer: dict[str, object] = {"job": slurm_submit.submit(decode(NodeOrder, wanted["order"]), wanted["sbatch"]).id}
    except GputopError as error:
        answer = {"error": error.message, "hint": error.hint, "usage": isinstance(error, UsageError)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0
