"""What only an administrator changes on a GPU: compute mode, persistence, and the license of a virtual GPU."""

from __future__ import annotations

import ctypes
import re
from typing import Any

from gputop.sources.nvml.calls import Asker, Licenses

_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_VIRTUAL_NAME = re.compile(r"-\d+[ABCQ]$")
"""How NVIDIA names the types of its virtual GPUs: GRID T4-16Q, NVIDIA A100-40C, NVIDIA A100-3-20C."""


def is_virtual(name: str | None) -> bool:
    """Return whether a GPU's name is that of a virtual GPU of NVIDIA's, a part of a GPU in a virtual machine."""
    return _VIRTUAL_NAME.search(name or "") is not None


def read_settings(asker: Asker) -> dict[str, Any]:
    """Return ``compute_mode`` and ``persistence_enabled``; None means unknown.

    Raises:
        DeviceGoneError: the device is lost or needs a reset.
    """
    mode = asker.number("compute_mode", "nvmlDeviceGetComputeMode")
    persistence = asker.number("persistence_enabled", "nvmlDeviceGetPersistenceMode")
    return {
        "compute_mode": None if mode is None else _COMPUTE_MODES.get(mode, str(mode)),
        "persistence_enabled": None if persistence is None else persistence == 1,
    }


def read_license(asker: Asker) -> bool | None:
    """Return whether a virtual GPU has a license; None if the driver does not say.

    Raises:
        DeviceGoneError: the device is lost or needs a reset.
    """
    found = Licenses()
    asked = asker.ask("license", "nvmlDeviceGetGridLicensableFeatures_v4", ctypes.byref(found))
    if not asked or not found.isGridLicenseSupported or not found.licensableFeaturesCount:
        return None
    features = found.gridLicensableFeatures[: found.licensableFeaturesCount]
    return any(feature.featureState for feature in features)
