"""The DDP demo with one mistake: fewer processes than GPUs. (Doctor: A02)

torchrun --nproc-per-node=1 demos/faults/launching/fewer_ranks.py

torchrun starts the number of processes it is given, one by default; the other GPUs idle.

The fix: torchrun --nproc-per-node=gpu demos/ddp.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp


class Training(ddp.Training):
    """The healthy training run."""

    name = "fewer-ranks"


if __name__ == "__main__":
    ddp.main(Training)  # the mistake is in the command line: --nproc-per-node=1
