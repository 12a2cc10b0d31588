"""--sync-bn: batch norm over the batches of all ranks.

In DDP each rank's batch norm sees only its own batch: with a few samples per GPU its averages are noise. torch's SyncBatchNorm
shares sums over all ranks, but works only on GPUs; the one below does the same on CPUs.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.nn import functional


class SyncBatchNorm(nn.BatchNorm2d):
    """SyncBatchNorm with sums that are all-reduced over the ranks. (all_reduce of torch.distributed.nn has a backward.)"""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize [N, C, ...] over the samples of all ranks."""
        if not self.training or not dist.is_initialized():
            return functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)
        wide = x.float()  # sums of many 16-bit numbers would be inaccurate
        others = [axis for axis in range(x.dim()) if axis != 1]
        count = wide.new_full((1,), x.numel() / x.shape[1])
        sums = all_reduce(torch.cat([count, wide.sum(others), (wide * wide).sum(others)]))
        total, (mean, square) = sums[0], (sums[1:] / sums[0]).chunk(2)
        variance = square - mean * mean
        with torch.no_grad():
            momentum = self.momentum or 0.1
            if self.running_mean is not None and self.running_var is not None:
                self.running_mean.lerp_(mean, momentum)
                self.running_var.lerp_(variance * total / (total - 1), momentum)  # unbiased, as in torch
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        shape = [1, -1] + [1] * (x.dim() - 2)
        normal = (wide - mean.view(shape)) * (variance.view(shape) + self.eps).rsqrt()
        scaled: Tensor = normal * self.weight.view(shape) + self.bias.view(shape)
        return scaled.to(x.dtype)


def convert(model: nn.Module, device: torch.device) -> nn.Module:
    """Return the model with every batch norm synchronized; call it before wrapping in DDP."""
    if device.type == "cuda":
        synced: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        return synced
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.__class__ = SyncBatchNorm  # the same parameters, a different forward
    return model
