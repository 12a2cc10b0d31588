"""The value of a loss, without waiting for a device: the only place that checks on which device a loss is."""

from __future__ import annotations

from typing import Any


def value_of(torch: Any, tensor: Any) -> Any:
    """Return the value of a loss: a number; a tensor that is read once it has arrived, if it is on a GPU; else None.

    None means a tensor with more than one value or on another device, or a value that a CUDA graph is capturing: it has none
    yet.
    """
    if tensor.numel() != 1:
        return None
    if tensor.is_cpu:
        modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
        if modes is None or not modes():
            return tensor.item()
        with torch._C._DisableTorchDispatch():  # a mode of the script's counts or forbids operations: this is none of its
            return tensor.item()
    if tensor.is_cuda and not torch.cuda.is_current_stream_capturing():
        return tensor.detach()
    return None
