"""torchruns that wait for other nodes (G06), and those that are fine."""

from __future__ import annotations

from dataclasses import replace

from gputop.process import WaitingLauncher
from gputop.snapshot import LaunchPart, Snapshot
from tests.doctor.scenes.base import Scene, gpus, scene
from tests.doctor.scenes.near.pairs import Pair
from tests.samples import EPOCH

TORCHRUN = WaitingLauncher(70, "train.py", 2, "gpu1:29500", "x", gputop_job_id="j", started_at=EPOCH - 45)


def waits(*launchers: WaitingLauncher, parts: tuple[LaunchPart, ...] = ()) -> Scene:
    """A machine with nothing but these torchruns."""

    def seen(second: int) -> Snapshot:
        shot = replace(scene(second, gpus([], 4)), time=EPOCH + second)
        return replace(shot, waiting_launchers=launchers, launches=parts)

    return seen


PAIRS = (
    Pair(
        "G06", "a launch over hosts", waits(TORCHRUN, parts=(LaunchPart("l", "j", "train", "running", 2),)), waits(TORCHRUN), 20
    ),
    Pair("G06", "a torchrun that has just started", waits(replace(TORCHRUN, started_at=EPOCH)), waits(TORCHRUN), 20),
)
