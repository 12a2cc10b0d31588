"""The setup of this process: torch's switches, the environment's device variables, and the loaded frameworks.

Reads only plain attributes, each separately, because torch rejects some of them in some combinations; what cannot be read is
None. Nothing here initializes CUDA.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from gputop.facts.setup import Environment, Settings
from gputop.frameworks import FRAMEWORKS
from gputop.tracking.journal.handlers import let_through

_AUTOCASTS = ("fp16", "bf16", "fp8")
"""Accelerate's names for the precisions for which it puts autocast into a model's forward."""
SEEDS = 1 << 32
"""Scripts set seeds below this limit, which is numpy's; torch's own have 64 bits."""

_PROFILER = 2
"""``sys.monitoring``'s id of profilers. Debuggers and coverage have others; they switch events off where they have been."""

_launched: str | None = None
_launch_read = False


def frameworks() -> list[str]:
    """Return the names of the frameworks that this process has imported."""
    return sorted(name for name, known in FRAMEWORKS.items() if any(module in sys.modules for module in known.modules))


def settings(torch: Any, autocast: bool) -> dict[str, Any]:
    """Return torch's switches; ``autocast``: whether it was on in an observed forward."""
    backends = torch.backends
    precision = _read(lambda: backends.cuda.matmul.fp32_precision)
    allow_tf32 = precision == "tf32" if precision not in (None, "none") else _read(lambda: backends.cuda.matmul.allow_tf32)
    deterministic = _read(torch.are_deterministic_algorithms_enabled), _read(lambda: backends.cudnn.deterministic)
    return Settings.filled(
        float32_matmul_precision=_read(torch.get_float32_matmul_precision),
        allow_tf32=allow_tf32,
        anomaly_detection=_read(torch.is_anomaly_enabled),
        deterministic=None if deterministic == (None, None) else any(deterministic),
        cudnn_benchmark=_read(lambda: backends.cudnn.benchmark),
        autocast=autocast or _accelerate_casts(),
        threads=_read(torch.get_num_threads),
        profiler=_read(torch.autograd._profiler_enabled),
        tracer=_read(_tracer),
        call_profiler=_read(_profiler),
        seed=_read(lambda: _chosen_seed(torch)),
    )


def _tracer() -> str | None:
    """Return the name of the trace function of this thread, as "coverage.tracer.CTracer"; None if it has none."""
    return _name_of(sys.gettrace())


def _profiler() -> str | None:
    """Return the name of what profiles the functions that this thread calls; None if nothing does."""
    monitoring: Any = getattr(sys, "monitoring", None)  # from Python 3.12 on
    if monitoring is not None and monitoring.get_tool(_PROFILER) and monitoring.get_events(_PROFILER):
        return str(monitoring.get_tool(_PROFILER))
    return _name_of(sys.getprofile())


def _name_of(found: object) -> str | None:
    named: Any = found if isinstance(found, FunctionType | MethodType) else type(found)
    return None if found is None else f"{named.__module__}.{named.__qualname__}"


def _chosen_seed(torch: Any) -> int | None:
    """Return the seed that the script has set; None if torch drew one of 64 bits, as it does in each process without one."""
    seed: int = torch.initial_seed()
    return seed if 0 <= seed < SEEDS else None


def environment(cuda: Any | None) -> dict[str, Any]:
    """Return the variables that select devices; ``cuda`` is ``torch.cuda`` once it is initialized.

    Only then are the UUIDs of the devices that CUDA actually sees queried; tests/gpu tests that on a GPU.
    """
    global _launched, _launch_read
    if not _launch_read:
        _launched, _launch_read = _at_launch("CUDA_VISIBLE_DEVICES"), True
    seen = None
    if cuda is not None:
        seen = _read(lambda: [_uuid(cuda.get_device_properties(index)) for index in range(cuda.device_count())])
    env = os.environ
    return Environment.filled(
        cuda_visible_devices_launch=_launched,
        cuda_visible_devices_now=env.get("CUDA_VISIBLE_DEVICES"),
        virtual_devices_now=env.get("GPUTOP_VIRTUAL_DEVICES"),
        device_order=env.get("CUDA_DEVICE_ORDER"),
        visible_uuids=seen,
        omp_num_threads=env.get("OMP_NUM_THREADS"),
    )


def autocast_is_on(torch: Any) -> bool:
    """Return whether autocast is currently on, for any device."""
    anywhere = getattr(torch._C, "_is_any_autocast_enabled", None)
    return bool(anywhere() if anywhere is not None else torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())


def _accelerate_casts() -> bool:
    """Return whether Accelerate puts autocast inside the forward, where it is not visible from outside the call."""
    state: Any = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    return getattr(state, "_shared_state", {}).get("_mixed_precision") in _AUTOCASTS


def _uuid(properties: Any) -> str | None:
    uuid = getattr(properties, "uuid", None)
    return None if uuid is None else f"GPU-{uuid}"


def _at_launch(name: str) -> str | None:
    """Return a variable's value at the start of this program, without later assignments by Python code."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return None
    prefix = f"{name}=".encode()
    found = next((entry for entry in entries if entry.startswith(prefix)), None)
    return None if found is None else found[len(prefix) :].decode("utf-8", "replace")


def _read(getter: Callable[[], Any]) -> Any:
    try:
        return getter()
    except Exception as error:  # noqa: BLE001 - torch rejects reading some switches, and older versions lack some
        let_through(error)
        return None
