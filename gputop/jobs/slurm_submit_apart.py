"""Submits a command to Slurm in a separate process, which records the job even if the screen that asked has ended meanwhile.

The order arrives on standard input, because its variables may be secrets; the answer is one line of JSON.
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
"""Not ``-m``: sbatch inherits the folder and the environment, and passes them on to the job."""


def submit_apart(order: NodeOrder, sbatch: str) -> Job:
    """Submit as ``slurm_submit.submit`` does, from a process that outlives this one.

    Raises:
        UsageError: there is no command or no Slurm, or an option cannot be read.
        GputopError: Slurm does not accept it, or the job cannot be recorded.
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
        raise GputopError("Submitting to Slurm ended early.", "Check with squeue whether Slurm accepted the job.") from None
    if "job" in answer:
        return store.find(answer["job"])
    raise (UsageError if answer["usage"] else GputopError)(answer["error"], answer["hint"])


def main() -> int:
    """Submit the order from standard input, and print the result."""
    wanted = parse_json(sys.stdin.buffer.read())
    try:
        answer: dict[str, object] = {"job": slurm_submit.submit(decode(NodeOrder, wanted["order"]), wanted["sbatch"]).id}
    except GputopError as error:
        answer = {"error": error.message, "hint": error.hint, "usage": isinstance(error, UsageError)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0
