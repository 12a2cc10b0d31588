"""Finds and loads the driver's library, and explains why there is none. Does not import pynvml."""

from __future__ import annotations

import ctypes
from pathlib import Path

from gputop.errors import NoGpuError

NAME = "libnvidia-ml.so.1"
ELSEWHERE = ("usr/lib/wsl/lib", "run/opengl-driver/lib", "usr/local/nvidia/lib64", "usr/local/nvidia/lib")
"""Where the library may be although the loader does not search there: WSL 2, NixOS, and Kubernetes containers."""
_ROOT = Path("/")


def open_library(name: str = NAME, root: Path = _ROOT) -> ctypes.CDLL:
    """Load the library that the system's loader finds, else from a known place.

    Raises:
        NoGpuError: there is none ("library_not_found"), or it cannot be loaded ("library_unusable").
    """
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        reason = str(error)
    if not _is_missing(reason, name):
        raise unusable(reason)
    for place in ELSEWHERE:
        path = root / place / NAME
        if path.exists():
            try:
                return ctypes.CDLL(str(path))
            except OSError as error:
                raise unusable(str(error)) from error
    raise missing(root)


def _is_missing(reason: str, name: str) -> bool:
    """Return whether the loader did not find the file itself. For a missing dependency, it names that one instead."""
    return reason.startswith(f"{name}: ") and "No such file" in reason


def missing(root: Path = _ROOT) -> NoGpuError:
    """Return the error for a machine without the library; ``root`` is where its files are."""
    if (root / "dev/dxg").exists():
        return NoGpuError(
            f"This is WSL, but {NAME} is missing.",
            "Install the NVIDIA driver on Windows, not in Linux, then run wsl --shutdown and start WSL again.",
            "library_not_found",
        )
    if (root / "etc/nv_tegra_release").exists():
        return NoGpuError(
            f"This is a Jetson, but {NAME} is missing.",
            "JetPack 6 includes it, with few readings; jtop and tegrastats read the rest.",
            "library_not_found",
        )
    if (root / "proc/driver/nvidia/version").exists():
        return NoGpuError(
            f"The NVIDIA driver is loaded, but {NAME} is missing here.",
            "In a container: docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility; else reinstall the driver.",
            "library_not_found",
        )
    return NoGpuError(
        f"There is no NVIDIA driver here: {NAME} is missing.",
        "Install the NVIDIA driver; in a container, start it with its GPUs (docker run --gpus all).",
        "library_not_found",
    )


def unusable(reason: str) -> NoGpuError:
    """Return the error for a library that the system's loader refuses; ``reason`` is what the loader says."""
    path, _, why = reason.partition(": ")
    if "wrong ELF class" in why or "cannot open shared object file: Exec format" in why:
        hint = "The library and this Python are not of the same architecture: use a 64-bit Python for this machine."
    elif "file too short" in why or "invalid ELF header" in why:
        hint = "It is a stand-in or damaged. Start a container with its GPUs (docker run --gpus all), or reinstall the driver."
    elif "Permission denied" in why:
        hint = "This user may not read it: check its permissions and those of its directory."
    else:
        hint = "It does not fit this system: reinstall the driver; in a container, use an image with a newer system."
    return NoGpuError(f"{path} cannot be loaded: {why or 'no reason given'}.", hint, "library_unusable")
