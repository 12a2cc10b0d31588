"""The DDP demo with one mistake: more ranks are expected than were started. (Doctor: G03)

torchrun --nproc-per-node=2 demos/faults/ranks/wrong_world_size.py

init_process_group waits until world_size ranks have joined. One rank more than torchrun started never joins, and no rank
trains.

The fix: leave world_size to the environment: torchrun sets it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp
from progress import say


class Training(ddp.Training):
    """Waits for a rank that does not exist."""

    name = "wrong-world-size"

    def connect(self) -> None:
        """Join the others."""
        os.environ["WORLD_SIZE"] = str(int(os.environ["WORLD_SIZE"]) + 1)  # the mistake: as copied from a job script
        say(f"rank {os.environ['RANK']} waits for {os.environ['WORLD_SIZE']} ranks")
        super().connect()


if __name__ == "__main__":
    ddp.main(Training)
