"""A module of torch that a test pickles: it needs a place of its own, because its test imports torch only when it runs."""

from __future__ import annotations

from typing import Any

import torch


class Engine(torch.nn.Module):
    """Splits a batch over replicas on the CPU, like nn.DataParallel."""

    def __init__(self, module: Any, device_ids: list[int]) -> None:
        super().__init__()
        self.module, self.device_ids, self.dim = module, device_ids, 0

    def forward(self, batch: Any, scale: float = 1.0) -> Any:
        return torch.cat([self.module(part) for part in batch.chunk(len(self.device_ids))]) * scale
