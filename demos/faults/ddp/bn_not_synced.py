"""The DDP demo with one mistake: batch norm with 4 samples on each rank. (Doctor: C10)

torchrun --nproc-per-node=2 demos/faults/ddp/bn_not_synced.py

Each rank's batch norm sees only its own 4 samples: its averages are noise, and the network ends up worse than with the same
batch on one GPU.

The fix: nn.SyncBatchNorm.convert_sync_batchnorm(model) before wrapping: demos/ddp.py --sync-bn.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import nn

import ddp
import models


class Training(ddp.Training):
    """Normalizes on each rank separately."""

    name = "bn-not-synced"

    def build(self) -> nn.Module:
        """Return LeNet with batch norm. The mistake: sync_bn.convert(model, device) is not called."""
        layers: list[nn.Module] = []
        for layer in models.LeNet():
            layers.append(layer)
            if isinstance(layer, nn.Conv2d):
                layers.append(nn.BatchNorm2d(layer.out_channels))
        return nn.Sequential(*layers)


if __name__ == "__main__":
    ddp.main(Training, batch_size=4)
