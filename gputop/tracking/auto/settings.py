"""How this process is set up: torch's switches, the environment's device variables, and which frameworks are loaded.

Plain attributes alone are read, each by itself, because torch refuses some of them in some combinations; what cannot be
read is None. Nothing here initializes CUDA.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from gputop.frameworks import FRAMEWORKS

_AUTOCASTS = ("fp16", "bf16", "fp8")
"""Accelerate's names of the precisions for which it puts autocast into a model's forward."""

_launched: str | None = None
_launch_read = False


def frameworks() -> list[str]:
    """Return the frameworks that this process has imported."""
    return sorted(name for name, known in FRAMEWORKS.items() if any(module in sys.modules for module in known.modules))


def settings(torch: Any, autocast: bool) -> dict[str, Any]:
    """Return torch's switches; ``autocast`` is whether it was on in a forward that was looked at."""
    backends = torch.backends
    precision = _read(lambda: backends.cuda.matmul.fp32_precision)
    allow_tf32 = precision == "tf32" if precision not in (None, "none") else _read(lambda: backends.cuda.matmul.allow_tf32)
    deterministic = _read(torch.are_deterministic_algorithms_enabled), _read(lambda: backends.cudnn.deterministic)
    return {
        "float32_matmul_precision": _read(torch.get_float32_matmul_precision),
        "allow_tf32": allow_tf32,
        "anomaly_detection": _read(torch.is_anomaly_enabled),
        "deterministic": None if deterministic == (None, None) else any(deterministic),
        "cudnn_benchmark": _read(lambda: backends.cudnn.benchmark),
        "autocast": autocast or _accelerate_casts(),
        "threads": _read(torch.get_num_threads),
        "profiler": _read(torch.autograd._profiler_enabled),
    }


def environment(cuda: Any | None) -> dict[str, Any]:
    """Return the variables that say which devices there are; ``cuda`` is ``torch.cuda`` once it is initialized.

    The devices that CUDA really sees are asked for by UUID only then; unproven on a GPU until tests/gpu has run.
    """
    global _launched, _launch_read
    if not _launch_read:
        _launched, _launch_read = _at_launch("CUDA_VISIBLE_DEVICES"), True
    seen = None
    if cuda is not None:
        seen = _read(lambda: [_uuid(cuda.get_device_properties(index)) for index in range(cuda.device_count())])
    env = os.environ
    return {
        "cuda_visible_devices_launch": _launched,
        "cuda_visible_devices_now": env.get("CUDA_VISIBLE_DEVICES"),
        "virtual_devices_now": env.get("GPUTOP_VIRTUAL_DEVICES"),
        "device_order": env.get("CUDA_DEVICE_ORDER"),
        "visible_uuids": seen,
        "omp_num_threads": env.get("OMP_NUM_THREADS"),
    }


def autocast_is_on(torch: Any) -> bool:
    """Return whether autocast is on now, for any device."""
    anywhere = getattr(torch._C, "_is_any_autocast_enabled", None)
    return bool(anywhere() if anywhere is not None else torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())


def _accelerate_casts() -> bool:
    """Return whether Accelerate puts autocast into the forward itself, where a call's outside does not show it."""
    state: Any = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    return getattr(state, "_shared_state", {}).get("_mixed_precision") in _AUTOCASTS


def _uuid(properties: Any) -> str | None:
    uuid = getattr(properties, "uuid", None)
    return None if uuid is None else f"GPU-{uuid}"


def _at_launch(name: str) -> str | None:
    """Return a variable as it was when this program was started: Python's own assignments are not in it."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    found = next((entry for entry in entries if entry.startswith(prefix)), None)
    return None if found is None else found[len(prefix) :].decode("utf-8", "replace")


def _read(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception:  # noqa: BLE001 - torch refuses some switches, and older ones lack some
        return None
