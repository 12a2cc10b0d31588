"""What the libraries of older drivers lack: the functions and fields that gputop uses, and the driver that introduced each.

From NVIDIA's own Python bindings, nvidia-ml-py 10.418.84 to 13.595.45 on PyPI: each release names the functions and the field
ids of the driver branch in its version. A driver between two releases counts as the older one.
"""

from __future__ import annotations

import re

Version = tuple[int, ...]

_MIG = (
    "MigMode",
    "MaxMigDeviceCount",
    "MigDeviceHandleByIndex",
    "DeviceHandleFromMigDeviceHandle",
    "GpuInstanceId",
    "ComputeInstanceId",
    "Attributes_v2",
    "MemoryAffinity",
    "RemappedRows",
)
_LISTS = ("Compute", "Graphics", "MPSCompute")
SINCE: dict[str, Version] = {
    **{f"nvmlDeviceGet{name}": (450,) for name in _MIG},
    "nvmlDeviceIsMigDeviceHandle": (450,),
    "nvmlEventSetWait_v2": (450,),
    **{f"nvmlDeviceGet{kind}RunningProcesses_v2": (460,) for kind in _LISTS},
    **{f"nvmlDeviceGet{kind}RunningProcesses_v3": (510,) for kind in _LISTS},
    "nvmlDeviceGetMemoryInfo_v2": (510,),
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": (525,),
    **{f"nvmlGpm{name}": (525,) for name in ("QueryDeviceSupport", "SampleAlloc", "SampleFree", "SampleGet")},
    **{f"nvmlGpm{name}": (525,) for name in ("MigSampleGet", "MetricsGet")},
    "nvmlDeviceGetCurrentClocksEventReasons": (535,),
    "nvmlDeviceGetConfComputeMemSizeInfo": (535,),
    "nvmlDeviceGetRunningProcessDetailList": (535, 133),
    "nvmlDeviceGetProcessesUtilizationInfo": (550,),
    "nvmlDeviceGetTemperatureV": (570,),
}
FIELDS_SINCE: dict[int, Version] = {
    **dict.fromkeys((138, 139, 142, 143, 144, 145), (450,)),
    165: (525,),
    **dict.fromkeys((185, 186), (525, 112)),
    **dict.fromkeys((190, 197, 198), (535,)),
    **dict.fromkeys((269, 270, 271), (575,)),
}


def version(driver: str) -> Version:
    """Return the numbers of a driver's version: "535.86.05-sim" is (535, 86, 5)."""
    return tuple(int(number) for number in re.findall(r"\d+", driver))


def thermal_fields(driver: str) -> int:
    """Return the first of the ids of the three slowdown counters; 575 and the first 580 drivers have them elsewhere."""
    return 251 if (575,) <= version(driver) <= (580, 66) else 269


def lacking(driver: str) -> frozenset[str]:
    """Return the functions that the library of this driver lacks."""
    return frozenset(name for name, since in SINCE.items() if version(driver) < since)


def unknown_fields(driver: str) -> tuple[int, ...]:
    """Return the ids of the fields that this driver lacks."""
    return tuple(field for field, since in FIELDS_SINCE.items() if version(driver) < since)
