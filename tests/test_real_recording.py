"""What a real GPU said while a GPT trained on it: fifteen seconds of an H100 (driver 580.159.04, torch 2.11), played again.

The names of the machine, its user and its folders were replaced; nothing else.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gputop.doctor.diagnosis import Doctor
from gputop.snapshot import Snapshot
from gputop.tui.drawing.run_panel import step_shares
from tests.terminal import Terminal

RECORDING = Path(__file__).parent / "recordings" / "h100_training.ndjson.gz"
SHARED = Path(__file__).parent / "recordings" / "h200_shared.ndjson.gz"
"""An H200 that four jobs share: a tracked one that logs its loss every 50 steps, two ranks of which one hangs, and two more."""


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return gzip.decompress(RECORDING.read_bytes()).decode().splitlines()


@pytest.fixture(scope="module")
def snapshots(lines: list[str]) -> list[Snapshot]:
    return [Snapshot.from_json(line) for line in lines[1:]]


def test_every_reading_is_still_understood(lines: list[str], snapshots: list[Snapshot]) -> None:
    for line, snapshot in zip(lines[1:], snapshots, strict=True):
        recorded, read = json.loads(line), json.loads(snapshot.to_json())
        for part in ("host", "devices", "processes", "runs"):
            assert_holds(read[part], recorded[part])


def assert_holds(read: Any, recorded: Any) -> None:
    """Assert that what was recorded was read; later versions may know more."""
    if isinstance(recorded, dict):
        assert read.keys() >= recorded.keys()
        for name, value in recorded.items():
            assert_holds(read[name], value)
    elif isinstance(recorded, list):
        assert len(read) == len(recorded)
        for one, other in zip(read, recorded, strict=True):
            assert_holds(one, other)
    else:
        assert read == recorded


def test_the_doctor_finds_nothing_wrong_with_a_healthy_run(snapshots: list[Snapshot]) -> None:
    doctor = Doctor()
    assert [doctor.observe(snapshot) for snapshot in snapshots] == [()] * len(snapshots)


def test_several_jobs_on_one_gpu_share_it_and_the_healthy_one_has_no_other_finding() -> None:
    doctor, said = Doctor(), set()
    for line in gzip.decompress(SHARED.read_bytes()).decode().splitlines()[1:]:
        snapshot = Snapshot.from_json(line)
        said |= {(finding.id, finding.run is not None) for finding in doctor.observe(snapshot)}
    assert said == {("H03", True), ("C16", False)}, "and its wait for the GPU, every 50 steps, is no stall (E07)"
    run = next(run for run in snapshot.runs if run.name == "healthy")
    assert {word: round(share, 2) for word, share in step_shares(run).items()} == {"fwd": 0.3, "bwd": 0.57, "opt": 0.08}


def test_the_screen_shows_the_gpu_the_run_and_its_process(lines: list[str], tmp_path: Path) -> None:
    file = tmp_path / "h100.ndjson"
    file.write_text("\n".join(lines) + "\n")
    last = Snapshot.from_json(lines[-1])
    device, rank = last.devices[0], last.runs[0].ranks[0]
    assert (device.utilization_percent or 0) > 90
    with Terminal([sys.executable, "-m", "gputop", "replay", str(file), "--speed", "8"]) as terminal:
        text = terminal.wait_for(lambda text: f"step {rank.step}" in text and "1 of 1 GPU works" in text)
        for shown in ("H100 80GB", "REPLAY", f"{device.power_w:.0f}/700 W", "train.py --seconds 62"):
            assert shown in text
        assert f"loss {rank.metrics['loss']:.3g}" in text
        terminal.press("q")
        assert terminal.wait_exit() == 0
