"""The structs of ``nvml.h`` that gputop passes to the driver, as of its 580 series, and their versions. Imports only ctypes.

nvidia-ml-py has them, too, among hundreds of others: it would take 2 MiB of the sampler and 20 ms of its start. What C declares
as an enumeration is an unsigned number here.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_longlong,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_ulong,
    c_ulonglong,
    c_ushort,
)

MEMORY_V2 = 0x02000028
TEMPERATURE_V1 = 0x0100000C
PROCESS_SAMPLES_NEW_V1 = 0x01000018
"""A struct's version: its number in the highest byte, its size in the others."""

GPM_METRICS_MOST = 477
"""How many metrics a request for them has room for (``NVML_GPM_METRIC_MAX``)."""


class _Opaque(Structure):
    """What only the driver looks into."""


Device = POINTER(_Opaque)
EventSet = POINTER(_Opaque)
GpmSample = POINTER(_Opaque)


class UtilizationRates(Structure):
    """``nvmlUtilization_t``."""

    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class MemoryV1(Structure):
    """``nvmlMemory_t``."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class MemoryV2(Structure):
    """``nvmlMemory_v2_t``."""

    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class Temperature(Structure):
    """``nvmlTemperature_v1_t``."""

    _fields_ = (("version", c_uint), ("sensorType", c_uint), ("temperature", c_int))


class PciInfo(Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class _Value(Union):
    """``nvmlValue_t``."""

    _fields_ = (
        ("dVal", c_double),
        ("uiVal", c_uint),
        ("ulVal", c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", c_longlong),
        ("siVal", c_int),
        ("usVal", c_ushort),
    )


class FieldValue(Structure):
    """``nvmlFieldValue_t``."""

    _fields_ = (
        ("fieldId", c_uint32),
        ("scopeId", c_uint32),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", _Value),
    )


class ProcessInfoV1(Structure):
    """An entry of the process lists of drivers before R510."""

    _fields_ = (("pid", c_uint), ("usedGpuMemory", c_ulonglong))


class ProcessInfo(Structure):
    """``nvmlProcessInfo_v2_t``, which the third version of the lists has, too."""

    _fields_ = (
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )


class ProcessSample(Structure):
    """``nvmlProcessUtilizationSample_t``."""

    _fields_ = (
        ("pid", c_uint),
        ("timeStamp", c_ulonglong),
        ("smUtil", c_uint),
        ("memUtil", c_uint),
        ("encUtil", c_uint),
        ("decUtil", c_uint),
    )


class ProcessSampleNew(Structure):
    """``nvmlProcessUtilizationInfo_v1_t``."""

    _fields_ = (
        ("timeStamp", c_ulonglong),
        ("pid", c_uint),
        ("smUtil", c_uint),
        ("memUtil", c_uint),
        ("encUtil", c_uint),
        ("decUtil", c_uint),
        ("jpgUtil", c_uint),
        ("ofaUtil", c_uint),
    )


class ProcessSamplesNew(Structure):
    """``nvmlProcessesUtilizationInfo_v1_t``: a request to the newer function for process utilization."""

    _fields_ = (
        ("version", c_uint),
        ("processSamplesCount", c_uint),
        ("lastSeenTimeStamp", c_ulonglong),
        ("procUtilArray", POINTER(ProcessSampleNew)),
    )


class MigAttributes(Structure):
    """``nvmlDeviceAttributes_t``."""

    _fields_ = (
        ("multiprocessorCount", c_uint),
        ("sharedCopyEngineCount", c_uint),
        ("sharedDecoderCount", c_uint),
        ("sharedEncoderCount", c_uint),
        ("sharedJpegCount", c_uint),
        ("sharedOfaCount", c_uint),
        ("gpuInstanceSliceCount", c_uint),
        ("computeInstanceSliceCount", c_uint),
        ("memorySizeMB", c_ulonglong),
    )


class GpmSupport(Structure):
    """``nvmlGpmSupport_t``."""

    _fields_ = (("version", c_uint), ("isSupportedDevice", c_uint))


class _MetricInfo(Structure):
    _fields_ = (("shortName", c_char_p), ("longName", c_char_p), ("unit", c_char_p))


class GpmMetric(Structure):
    """``nvmlGpmMetric_t``."""

    _fields_ = (("metricId", c_uint), ("nvmlReturn", c_uint), ("value", c_double), ("metricInfo", _MetricInfo))


class GpmMetrics(Structure):
    """``nvmlGpmMetricsGet_t``: a request for metrics. A driver may read all of it."""

    _fields_ = (
        ("version", c_uint),
        ("numMetrics", c_uint),
        ("sample1", GpmSample),
        ("sample2", GpmSample),
        ("metrics", GpmMetric * GPM_METRICS_MOST),
    )


class _LicenseExpiry(Structure):
    _fields_ = (
        ("year", c_uint32),
        ("month", c_uint16),
        ("day", c_uint16),
        ("hour", c_uint16),
        ("min", c_uint16),
        ("sec", c_uint16),
        ("status", c_uint8),
    )


class _License(Structure):
    _fields_ = (
        ("featureCode", c_uint),
        ("featureState", c_uint),
        ("licenseInfo", c_char * 128),
        ("productName", c_char * 128),
        ("featureEnabled", c_uint),
        ("licenseExpiry", _LicenseExpiry),
    )


class Licenses(Structure):
    """``nvmlGridLicensableFeatures_v4_t``."""

    _fields_ = (
        ("isGridLicenseSupported", c_int),
        ("licensableFeaturesCount", c_uint),
        ("gridLicensableFeatures", _License * 3),
    )


class EventData(Structure):
    """``nvmlEventData_t``."""

    _fields_ = (
        ("device", Device),
        ("eventType", c_ulonglong),
        ("eventData", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )
