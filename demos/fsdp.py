"""Train with FSDP: every rank holds a part of each weight, and the ranks gather a layer's weights when they need them.

torchrun --nproc-per-node=2 demos/fsdp.py

For models whose weights, gradients and optimizer state do not fit on one GPU. It is the DDP script (ddp.py) with another
wrapper: the ranks split the data in the same way, and the result is the same.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

import ddp
from progress import correct, say

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule
    from torch.utils.data import Subset


class Training(ddp.Training):
    """One rank of a sharded training run."""

    name = "fsdp"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Shard each layer that has weights, then the rest, so that layers can be gathered one at a time."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.place.device.type, (self.world_size,))
        for layer in model.children():
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        held = sum(_local(parameter).numel() for parameter in model.parameters())
        whole = sum(parameter.numel() for parameter in model.parameters())
        say(f"rank {self.rank} holds {held} of {whole} parameters")
        return model  # the same module: fully_shard modified it in place

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Turn gradient averaging off; FSDP makes it a setting of the module."""
        root = cast("FSDPModule", self.parallel)
        root.set_requires_gradient_sync(False)
        yield
        root.set_requires_gradient_sync(True)

    def test(self, epoch: int) -> None:
        """Test the same number of batches on every rank, that of the rank with the fewest images: each forward gathers
        weights.
        """
        images_of_all = len(cast("Subset[Any]", self.test_loader.dataset).dataset)  # type: ignore[arg-type]
        batches = math.ceil(images_of_all // self.world_size / (self.test_loader.batch_size or 1))
        counts = torch.tensor(correct(self.parallel, islice(self.test_loader, batches), self.place.device))
        counts = counts.to(self.place.device)
        dist.all_reduce(counts)
        self.meter.tested(epoch, float(counts[0] / counts[1]), shown=self.rank == 0)

    def save(self) -> None:
        """Gather the full weights on all ranks; rank 0 writes them, as any other recipe does."""
        if self.args.save:
            state = {name: _whole(tensor) for name, tensor in self.model.state_dict().items()}
            if self.rank == 0:
                torch.save(state, self.args.save)

    def weights(self) -> list[Tensor]:
        """Return the full weights."""
        return [_whole(parameter) for parameter in self.model.parameters()]


def _local(tensor: Any) -> Tensor:
    own: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return own


def _whole(tensor: Any) -> Tensor:
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


if __name__ == "__main__":
    if importlib.util.find_spec("torch.distributed.fsdp._fully_shard") is None:
        print(f"torch {torch.__version__} has no fully_shard: it needs torch 2.6 or newer.", file=sys.stderr)
        sys.exit(2)
    ddp.main(Training)
