"""The value of a loss, without waiting for a device: the only place that checks on which device a loss is."""

from __future__ import annotations

from typing import Any

from gputop.tracking.journal.handlers import let_through


def value_of(torch: Any, tensor: Any) -> Any:
    """Return the value of a loss: a number; a tensor that is read once it has arrived, if it is on a GPU; else None.

    None means a tensor with more than one value or on another device, or a value that a CUDA graph is capturing: it has none
    yet.
    """
    if tensor.numel() != 1:
        return None
    if tensor.is_cpu:
        if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
            return _value_of_subclass(torch, tensor)
        if not _has_modes(torch):
            return tensor.item()
        with torch._C._DisableTorchDispatch():  # a mode of the script's counts or forbids operations: this is none of its
            return tensor.item()
    if tensor.is_cuda and not torch.cuda.is_current_stream_capturing():
        return tensor.detach()
    return None


def _has_modes(torch: Any) -> bool:
    """Return whether a mode of the script's sees each operation."""
    modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
    return modes is not None and modes() > 0


def _value_of_subclass(torch: Any, tensor: Any) -> float | None:
    """Return the value of a tensor of another class, which may have none, or no memory of its own; else None."""
    try:
        if _has_modes(torch):
            with torch.utils._python_dispatch._disable_current_modes():  # but its class must see the operation
                value = tensor.item()
        else:
            value = tensor.item()
    except Exception as error:  # noqa: BLE001 - the class is anybody's, and need not know the operation
        let_through(error)
        return None
    return value if isinstance(value, int | float) else None
