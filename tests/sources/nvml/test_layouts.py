"""The structs that gputop passes to the driver are those of nvidia-ml-py, which NVIDIA generates from ``nvml.h``."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import pynvml
import pytest

from gputop.sources.nvml import layouts

THEIRS = {
    "UtilizationRates": pynvml.c_nvmlUtilization_t,
    "MemoryV1": pynvml.c_nvmlMemory_t,
    "MemoryV2": pynvml.c_nvmlMemory_v2_t,
    "Temperature": pynvml.c_nvmlTemperature_v1_t,
    "PciInfo": pynvml.nvmlPciInfo_t,
    "FieldValue": pynvml.c_nvmlFieldValue_t,
    "ProcessInfo": pynvml.c_nvmlProcessInfo_v2_t,
    "ProcessSample": pynvml.c_nvmlProcessUtilizationSample_t,
    "ProcessSampleNew": pynvml.c_nvmlProcessUtilizationInfo_v1_t,
    "ProcessSamplesNew": pynvml.c_nvmlProcessesUtilizationInfo_v1_t,
    "MigAttributes": pynvml.c_nvmlDeviceAttributes,
    "GpmSupport": pynvml.c_nvmlGpmSupport_t,
    "GpmMetric": pynvml.c_nvmlGpmMetric_t,
    "GpmMetrics": pynvml.c_nvmlGpmMetricsGet_t,
    "Licenses": pynvml.c_nvmlGridLicensableFeatures_v4_t,
    "EventData": pynvml.c_nvmlEventData_t,
}
UNKNOWN_TO_PYNVML = {"ProcessInfoV1"}


def places(struct: Any) -> list[tuple[str, int, int, object]]:
    """The fields of a struct, with what their own structs contain: name, offset, size and what a plain one is."""
    found: list[tuple[str, int, int, object]] = []
    for name, kind in struct._fields_:
        at = getattr(struct, name)
        inner = getattr(kind, "_type_", None) if isinstance(kind, type(ctypes.c_int * 2)) else kind
        if hasattr(inner, "_fields_"):
            found += [(f"{name}.{field}", at.offset + offset, size, what) for field, offset, size, what in places(inner)]
        elif isinstance(kind, type(ctypes.POINTER(ctypes.c_int))):
            found.append((name, at.offset, at.size, "pointer"))
        else:
            found.append((name, at.offset, at.size, inner))
    return found


def test_every_struct_is_compared() -> None:
    ours = {name for name, kind in inspect.getmembers(layouts, inspect.isclass) if hasattr(kind, "_fields_")}
    assert {name for name in ours if not name.startswith("_")} == {*THEIRS, *UNKNOWN_TO_PYNVML}


@pytest.mark.parametrize("name", THEIRS)
def test_a_struct_has_the_drivers_layout(name: str) -> None:
    ours, theirs = getattr(layouts, name), THEIRS[name]
    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    assert places(ours) == places(theirs)


def test_the_versions_are_the_drivers() -> None:
    assert layouts.MEMORY_V2 == pynvml.nvmlMemory_v2 == 2 << 24 | ctypes.sizeof(layouts.MemoryV2)
    assert layouts.TEMPERATURE_V1 == pynvml.nvmlTemperature_v1 == 1 << 24 | ctypes.sizeof(layouts.Temperature)
    assert (
        layouts.PROCESS_SAMPLES_NEW_V1
        == pynvml.ProcessesUtilizationInfo_v1
        == 1 << 24 | ctypes.sizeof(layouts.ProcessSamplesNew)
    )
    assert layouts.GPM_METRICS_MOST == pynvml.NVML_GPM_METRIC_MAX
