"""Facts about a rank's torch and device, read without loading torch, initializing CUDA, or waiting for it.

``news`` runs on the flusher's thread and reads only plain Python attributes; ``record`` runs on a logging thread.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from gputop.facts.setup import Device, Torch
from gputop.tracking.recorder import Recorder


def cuda() -> Any | None:
    """Return ``torch.cuda`` if torch is loaded and CUDA is initialized in this process, else None."""
    torch: Any = sys.modules.get("torch")
    module = getattr(torch, "cuda", None)
    try:
        return module if module is not None and module.is_initialized() else None
    except Exception:  # noqa: BLE001 - torch may be half imported on another thread
        return None


def torch_fact(ask_cuda: bool = False) -> dict[str, Any] | None:
    """Return the fact ``torch``; None if torch is not loaded. ``ask_cuda`` lets torch query the devices."""
    torch: Any = sys.modules.get("torch")
    version = getattr(torch, "__version__", None)
    if version is None or not hasattr(torch, "cuda"):
        return None
    built = getattr(getattr(torch, "version", None), "cuda", None) is not None
    available = count = None
    with suppress(Exception):  # a broken driver is not the training's concern here
        if ask_cuda or torch.cuda.is_initialized():
            available = bool(torch.cuda.is_available())
            count = int(torch.cuda.device_count())
    return Torch.filled(version=str(version), cuda_built=built, cuda_available=available, device_count=count)


def device_fact(module: Any) -> dict[str, Any] | None:
    """Return the current CUDA device as an entry of the fact ``devices``; None while a graph is being captured."""
    if module.is_current_stream_capturing():
        return None
    index = int(module.current_device())
    uuid = getattr(module.get_device_properties(index), "uuid", None)
    return Device.filled(
        name=f"cuda:{index}",
        uuid=None if uuid is None else f"GPU-{uuid}",
        virtual_index=None,
        thread_id=None,
        memory_bytes=None,
    )


class Watcher:
    """Detects, once each, that torch was loaded and that CUDA was initialized."""

    def __init__(self, run: Recorder) -> None:
        self._run = run
        self._torch_recorded = False
        self._device_recorded = False

    def news(self) -> bool:
        """Return whether ``record`` would have something new to record."""
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return False
        return (not self._torch_recorded and hasattr(torch, "cuda")) or (not self._device_recorded and cuda() is not None)

    def record(self) -> None:
        """Record the facts ``torch`` and ``devices`` if they are new."""
        module = cuda()
        if not self._torch_recorded or (module is not None and not self._device_recorded):
            found = torch_fact()
            if found is not None:
                self._torch_recorded = True
                self._run.fact("torch", found)
        if module is not None and not self._device_recorded:
            entry = device_fact(module)
            if entry is not None:
                self._device_recorded = True
                if "devices" not in self._run.facts:
                    self._run.fact("devices", [entry])
