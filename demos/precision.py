"""Mixed precision (--amp): the forward pass in 16 bits, the weights in 32."""

from __future__ import annotations

import torch
from torch import Tensor


class Precision:
    """Autocast, plus a gradient scaler for float16, whose small range would lose small gradients. bfloat16 needs none."""

    def __init__(self, device: torch.device, amp: bool) -> None:
        half = torch.float16 if device.type == "cuda" and not torch.cuda.is_bf16_supported() else torch.bfloat16
        self._device, self._amp, self._half = device, amp, half
        self._scaler = torch.amp.GradScaler(device.type, enabled=amp and half is torch.float16)

    def autocast(self) -> torch.autocast:
        """Return the context for the forward pass and the loss; backward stays outside."""
        return torch.autocast(self._device.type, dtype=self._half, enabled=self._amp)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of the loss (scaled for float16)."""
        self._scaler.scale(loss).backward()

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Take an optimizer step; a step whose gradients overflowed is skipped."""
        self._scaler.step(optimizer)
        self._scaler.update()
