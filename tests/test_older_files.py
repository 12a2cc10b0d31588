"""Files of the first version, as it wrote them: a job, the user's own commands, the settings.

Journals and recordings have their own tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.jobs import store
from gputop.places import config_path, create_dirs, jobs_dir
from gputop.recipes import own_commands
from gputop.settings.file import read_settings, save_settings
from gputop.settings.values import Settings

JOB = "20261122-072613-bfc1"
BOOT = "f360211c-18a1-4d87-b9b9-5366a54c33e8"
FILES = {
    "spec.json": f"""{{"id": "{JOB}", "name": "first", "recipe_id": null, "argv": ["sh", "-c", "train"], "env": {{}},
"cwd": "/", "device_uuids": [], "values": {{}}, "hostname": "vm", "created_at": 1795764373.19, "after": []}}""",
    "spawned.json": f'{{"pid": 11089, "start_ticks": 6112701, "boot_id": "{BOOT}"}}',
    "status.json": f"""{{"state": "ended", "supervisor": {{"pid": 11089, "start_ticks": 6112701, "boot_id": "{BOOT}"}},
"child": {{"pid": 11095, "start_ticks": null, "boot_id": "{BOOT}"}}, "ended_at": 1795764373.81, "exit_code": 3,
"signal": null, "asked": [], "swept": [], "survivors": [], "problem": null, "began_at": 1795764373.68}}""",
    "out.log": "step 1 loss 0.5\nstep 2 loss 0.25\n",
    "supervisor.log": "",
}
COMMANDS = """{"commands": [
{"name": "mine", "command": "A=1 python train.py --lr 0.1", "cwd": "/", "environment": {}, "gpus": 1}
]}
"""
SETTINGS = """interval_s = 2.0
theme = "auto"
ascii = false
density = "auto"
log_axis = false
smoothing = 0.5
per_rank = false
"""


def put(path: Path, text: str) -> None:
    create_dirs(path.parent)
    path.write_text(text)
    path.chmod(0o600)


def test_a_job_of_the_first_version_is_listed_with_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        put(jobs_dir() / JOB / name, text)
    job = store.find(JOB)
    assert (job.name, job.state, job.exit_code, job.argv) == ("first", "failed", 3, ("sh", "-c", "train"))
    assert (job.started_at, job.ended_at, job.problem) == (1795764373.68, 1795764373.81, None)
    assert main(["logs", JOB]) == 0
    assert capsys.readouterr().out == FILES["out.log"]


def test_commands_of_the_first_version_are_kept() -> None:
    put(own_commands.file(), COMMANDS)
    mine = own_commands.OwnCommand("mine", "A=1 python train.py --lr 0.1", "/")
    assert own_commands.load() == (mine,)
    own_commands.remember(own_commands.OwnCommand("new", "true", "/"))
    assert [command.name for command in own_commands.load()] == ["new", "mine"]


def test_settings_of_the_first_version_hold() -> None:
    put(config_path(), SETTINGS)
    read = read_settings()
    assert (read.settings, read.problems, read.broken) == (Settings(interval_s=2.0, smoothing=0.5), (), False)
    save_settings(read.settings)
    assert read_settings().settings == read.settings
