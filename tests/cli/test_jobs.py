"""What ``gputop jobs`` says of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.cli.jobs import _job_row
from gputop.jobs.job import Job


@pytest.mark.parametrize(("chosen", "said"), [((), "N/A"), (("GPU-a", "GPU-b"), "2")])
def test_a_job_for_which_no_gpus_were_chosen_may_use_any(chosen: tuple[str, ...], said: str) -> None:
    assert _job_row(Job("train-1", "train", "running", ("python", "train.py"), Path("train-1"), device_uuids=chosen))[3] == said
