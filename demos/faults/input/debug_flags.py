"""The DDP demo with one mistake: debugging is left on. (Doctor: E05)

CUDA_LAUNCH_BLOCKING=1 torchrun --nproc-per-node=2 demos/faults/input/debug_flags.py

Anomaly detection keeps a stack for every forward operation and checks every gradient; CUDA_LAUNCH_BLOCKING waits for every
kernel. Both help while debugging and slow down every later run. (So does TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares every
collective.)

The fix: unset TORCH_DISTRIBUTED_DEBUG CUDA_LAUNCH_BLOCKING, and no torch.autograd.detect_anomaly().
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch

import ddp


class Training(ddp.Training):
    """Still debugs an error that was fixed long ago."""

    name = "debug-flags"

    def train_epoch(self, epoch: int) -> None:
        """Train on each batch of this rank."""
        with torch.autograd.detect_anomaly():  # the mistake
            super().train_epoch(epoch)


if __name__ == "__main__":
    ddp.main(Training)
