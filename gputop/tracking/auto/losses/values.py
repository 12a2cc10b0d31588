"""The value of a loss, without waiting for a device: the only place that checks on which device a loss is."""

from __future__ import annotations

from typing import Any

from gputop.tracking.journal.handlers import let_through
from gputop.tracking.unseen import has_modes, unseen


def value_of(torch: Any, tensor: Any) -> Any:
    """Return the value of a loss: a number; a tensor that is read once it has arrived, if it is on a GPU; else None.

    None means a tensor with more than one value or on another device, or a value that a CUDA graph is capturing: it has none
    yet.
    """
    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        return _value_of_subclass(torch, tensor)
    if has_modes(torch):
        with unseen(torch):
            return plain_value_of(torch, tensor)
    return plain_value_of(torch, tensor)


def plain_value_of(torch: Any, tensor: Any) -> Any:
    """Return the same of a tensor of torch's own class, while no mode is active."""
    if tensor.is_cpu:
        if not tensor.dim():
            try:
                # ``item`` passes through torch's dispatcher, whose code the training has evicted from the caches.
                return tensor.tolist()
            except RuntimeError as error:  # a tensor without memory of its own: its class may answer
                let_through(error)
        return tensor.item() if tensor.numel() == 1 else None
    if tensor.is_cuda and tensor.numel() == 1 and not torch.cuda.is_current_stream_capturing():
        return tensor.detach()
    return None


def _value_of_subclass(torch: Any, tensor: Any) -> Any:
    """Return the value of a tensor of another class, which may have none, or no memory of its own; else None."""
    try:
        with unseen(torch):
            value = plain_value_of(torch, tensor)
    except Exception as error:  # noqa: BLE001 - the class is anybody's, and need not know the operation
        let_through(error)
        return None
    return value if isinstance(value, int | float | torch.Tensor) else None
