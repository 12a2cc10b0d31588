"""What every test gets: a state directory of its own, so that nothing touches the home of whoever runs it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.fuzzing import DEFAULT_EXAMPLES, TIMES, examples

os.environ["GPUTOP_AUTO"] = "0"  # tests that train in this process record what they say themselves; set before torch comes


# On a busy machine an example takes longer than Hypothesis allows by default.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
if TIMES > 1:
    settings.register_profile("fuzz", max_examples=examples(DEFAULT_EXAMPLES), deadline=None, print_blob=True)
    settings.load_profile("fuzz")


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point every place of gputop's at a directory of this test."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GPUTOP_DIR", str(tmp_path / "gputop"))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GPUTOP_RUN_ID", "GPUTOP_JOB_ID", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(autouse=True)
def loud_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a rule or a reading that fails fail the test: to people it is only told as what could not be judged or read."""
    monkeypatch.setattr("gputop.doctor.diagnosis.Doctor.raises", True)
    monkeypatch.setattr("gputop.agent.sampler.Sampler.raises", True)
