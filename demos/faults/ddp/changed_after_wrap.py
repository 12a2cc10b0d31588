"""The DDP demo with one mistake: the model's type is changed after it was wrapped. (Doctor: C02)

torchrun --nproc-per-node=2 demos/faults/ddp/changed_after_wrap.py

DDP hooks into the parameters that exist when it wraps the model. After a later move or cast, the hooks no longer apply: there
is no error and no averaging, and the ranks drift apart.

The fix: build, .to(device), .to(dtype), SyncBatchNorm, and only then DistributedDataParallel.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor, nn

import ddp


class Training(ddp.Training):
    """Casts too late."""

    name = "changed-after-wrap"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model."""
        return super().wrap(model).double()  # the mistake: model.double() must come first

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return super().loss(images.double(), labels)

    def test(self, epoch: int) -> None:
        """Test with the model in the images' type."""
        self.model.float()
        super().test(epoch)
        self.model.double()


if __name__ == "__main__":
    ddp.main(Training)
