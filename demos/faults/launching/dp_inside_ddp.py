"""The DDP demo with one mistake: every rank drives all GPUs with nn.DataParallel. (Doctor: A19)

torchrun --nproc-per-node=2 demos/faults/launching/dp_inside_ddp.py

nn.DataParallel was left in a script that torchrun starts: each of N ranks puts a copy on each of N GPUs, and the ranks do not
average their gradients.

The fix: DistributedDataParallel(model, device_ids=[local_rank]), and no nn.DataParallel.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch
from torch import nn

import cpu_data_parallel
import ddp
import devices


class Training(ddp.Training):
    """Wraps as a single process would."""

    name = "dp-inside-ddp"

    def take_device(self) -> devices.Place:
        """Return "cuda", whatever the rank; without CUDA, the virtual GPU of this rank."""
        return devices.take(0) if torch.cuda.is_available() else super().take_device()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model."""
        if self.place.device.type == "cuda":
            return nn.DataParallel(model.to("cuda:0"))  # the mistake
        parallel = cpu_data_parallel.DataParallel(model, devices.places())  # the same mistake without CUDA
        devices.report_workers(self.run, parallel.workers)
        return parallel


if __name__ == "__main__":
    ddp.main(Training)
