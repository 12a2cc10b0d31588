"""A job handed to Slurm by a process of its own: kept, refused in words, and kept too if the one that asked is gone."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.errors import GputopError, UsageError
from gputop.jobs import store
from gputop.jobs.slurm_submit_apart import submit_apart
from gputop.recipes.nodes import NodeOrder
from gputop.wire import encode
from tests import REPOSITORY
from tests.hosts.test_shortcuts import programs, stand_in
from tests.tracking.kit import Home, eventually, home

assert home
assert programs


def order(folder: Path) -> NodeOrder:
    command = (sys.executable, "train.py")
    return NodeOrder(store.new_id(), 0, 1, command=command, environment={"KEY": "sesame"}, cwd=str(folder), name="mine")


def test_the_job_is_stored_and_its_variables_are_not_command_words(home: Home, programs: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked here"
    stand_in(programs, sbatch=f'cat >{shlex.quote(str(asked))}; pwd >>{shlex.quote(str(asked))}; echo "4711;"', scontrol="true")
    job = submit_apart(order(tmp_path), "-N2")
    assert job.slurm is not None
    assert (job.name, job.slurm.id) == ("mine", "4711")
    said = asked.read_text()
    assert "export KEY=sesame\n" in said
    assert said.splitlines()[-1] == os.getcwd(), "sbatch tells the job where it was submitted"


def test_a_refusal_is_reported_as_if_it_came_from_here(home: Home, programs: Path, tmp_path: Path) -> None:
    stand_in(programs, sbatch="echo 'sbatch: error: Invalid partition' >&2; exit 1")
    with pytest.raises(GputopError, match="Invalid partition"):
        submit_apart(order(tmp_path), "-p none")
    with pytest.raises(UsageError, match="cannot be read"):
        submit_apart(order(tmp_path), "'")
    assert not store.list_jobs()


def test_the_job_is_kept_if_the_screen_has_ended(home: Home, programs: Path, tmp_path: Path) -> None:
    asked, go_on = tmp_path / "asked", tmp_path / "go on"
    waits = f"touch {shlex.quote(str(asked))}; until test -e {shlex.quote(str(go_on))}; do sleep 0.05; done"
    stand_in(programs, sbatch=f"cat >/dev/null; {waits}; echo 4712", scontrol="true")
    asking = "import json, sys; from gputop.jobs.slurm_submit_apart import *; "
    asking += "submit_apart(decode(NodeOrder, json.loads(sys.argv[1])), '-N2')"
    words = [sys.executable, "-c", asking, json.dumps(encode(order(tmp_path)))]
    screen = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    try:
        eventually(asked.exists, "Slurm is asked")
    finally:
        screen.kill()
        screen.wait()
    go_on.touch()
    (job,) = eventually(store.list_jobs, "the job is kept")
    assert job.slurm is not None
    assert job.slurm.id == "4712"
