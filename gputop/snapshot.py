"""The frozen records that travel from a machine to a screen, and their JSON form.

A ``Snapshot`` is all that is known about one machine at one moment. Unknown values are ``None``, never 0; every unit
is in the field's name. The JSON form is one object per line with the same names; NaN and infinities, which are data
in a metric, travel as the strings "NaN", "Infinity" and "-Infinity".

This module imports the standard library alone, because every other room imports it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

SCHEMA_VERSION = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, in words for a person.

    ``code`` is one of: no_gpu, no_driver, driver_mismatch, library_not_found, no_permission, gpu_lost,
    reset_required, hung, unified_memory, other.
    """

    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Host:
    """The machine. ``source`` is "nvml", "virtual" or "none"; ``simulated`` marks a simulated driver."""

    hostname: str
    boot_id: str | None = None
    source: str = "none"
    simulated: bool = False
    driver_version: str | None = None
    cuda_version: str | None = None
    cpu_count: int | None = None
    cpu_percent: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    load_1m: float | None = None
    problem: Problem | None = None
    """Why there is no GPU, or no driver, on this machine; set also when virtual GPUs stand in."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, MIG instance or virtual GPU. Known by ``uuid``, shown by ``index``.

    ``kind`` is "gpu", "mig" or "virtual"; ``state`` is "ok", "lost", "error" or "stale" (its readings are older than
    three intervals: ``age_s`` says how old). ``memory_version`` is "v2", "v1" (counts the driver's reserve as used)
    or "host" (unified memory: the host's own figures). Utilisation in percent is NVML's share of time with at least
    one kernel running; activities are GPM's. Throttle counters are cumulative nanoseconds, energy is since driver load.
    """

    index: int
    uuid: str
    name: str | None = None
    kind: str = "gpu"
    parent_uuid: str | None = None
    mig_label: str | None = None
    """For a MIG instance, what nvidia-smi calls it: "1g.10gb" and its instance numbers, e.g. "0:3 1g.10gb"."""
    state: str = "ok"
    age_s: float | None = None
    problem: Problem | None = None
    pci_bus_id: str | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_version: str | None = None
    utilization_percent: float | None = None
    memory_activity_percent: float | None = None
    sm_activity_percent: float | None = None
    sm_occupancy_percent: float | None = None
    tensor_activity_percent: float | None = None
    dram_activity_percent: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_limit_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    temperature_slowdown_c: float | None = None
    temperature_shutdown_c: float | None = None
    memory_temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    performance_state: int | None = None
    fan_percent: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    throttle_power_ns: int | None = None
    throttle_sync_boost_ns: int | None = None
    throttle_thermal_sw_ns: int | None = None
    throttle_thermal_hw_ns: int | None = None
    throttle_power_brake_ns: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_throughput_source: str | None = None
    """"gpm", "counters" or "blocking" (nvmlDeviceGetPcieThroughput, 20 ms a direction)."""
    nvlink_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_rows_correctable: int | None = None
    remapped_rows_uncorrectable: int | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    compute_mode: str | None = None
    mig_enabled: bool | None = None
    persistence_enabled: bool | None = None
    unified_memory: bool | None = None
    denied: tuple[str, ...] = ()
    """Names of fields that are None for lack of permission."""


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one process has on one device. ``contexts`` is a subset of "C", "G", "M" (compute, graphics, MPS)."""

    device_uuid: str
    memory_used_bytes: int | None = None
    sm_utilization_percent: float | None = None
    contexts: str = ""


@dataclass(frozen=True, slots=True)
class LaunchEnvironment:
    """What a process was started with, from /proc/<pid>/environ: later changes inside Python are not visible there."""

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_world_size: int | None = None
    cuda_visible_devices: str | None = None
    cuda_device_order: str | None = None
    torchelastic_run_id: str | None = None
    gputop_run_id: str | None = None
    gputop_job_id: str | None = None
    virtual_devices: str | None = None
    """GPUTOP_VIRTUAL_DEVICES: the virtual GPUs that this process may use, like CUDA_VISIBLE_DEVICES ("0,1")."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A parent in the chain from a process up to init, nearest first."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class Process:
    """One process that uses a device, belongs to a run, or looks like training on the CPU.

    ``hidden`` names the fields that the operating system keeps from us (another user's process); they are None.
    ``autograd_threads`` are (device index as the process sees it, CPU seconds) of its ``pt_autograd_<i>`` threads.
    ``in_namespace`` is False when the driver reports a PID that this PID namespace does not have (containers).
    """

    pid: int
    devices: tuple[DeviceUse, ...] = ()
    ppid: int | None = None
    uid: int | None = None
    user: str | None = None
    name: str | None = None
    command: tuple[str, ...] | None = None
    state: str | None = None
    cpu_percent: float | None = None
    memory_rss_bytes: int | None = None
    started_at: float | None = None
    """Wall clock, seconds since the epoch."""
    environment: LaunchEnvironment | None = None
    ancestors: tuple[Ancestor, ...] = ()
    launcher: Ancestor | None = None
    """The nearest ancestor that launches ranks: torchrun, accelerate, deepspeed, srun, mpirun."""
    container: str | None = None
    torch_mapped: bool | None = None
    torch_cuda_mapped: bool | None = None
    nvidia_open: bool | None = None
    """True when a /dev/nvidia* file is open in the process."""
    autograd_threads: tuple[tuple[int, float], ...] = ()
    in_namespace: bool = True
    hidden: tuple[str, ...] = ()
    run_id: str | None = None
    rank: int | None = None
    """Rank in ``run_id``, from the journal, else from the environment at launch."""


@dataclass(frozen=True, slots=True)
class ProcessDetails:
    """What is read of one process on demand, beside the stream. ``cpu_affinity`` holds the cores that it may run on."""

    threads: int | None = None
    open_files: int | None = None
    niceness: int | None = None
    cpu_affinity: tuple[int, ...] | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    involuntary_switches: int | None = None
    working_directory: str | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of a run, from its journal. ``state``: starting, running, finished, failed, killed, stalled."""

    rank: int
    pid: int | None = None
    hostname: str | None = None
    local_rank: int | None = None
    world_size: int | None = None
    state: str = "starting"
    exit_code: int | None = None
    step: int | None = None
    last_log_at: float | None = None
    """Wall clock of the last record, seconds since the epoch."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The latest value of each metric."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the rank said of itself: ``devices``, ``data_parallel``, ``progress`` … (tracking/run.py lists them)."""


@dataclass(frozen=True, slots=True)
class Run:
    """One training job: all its ranks, joined by run id. ``state`` as of a rank, worst first."""

    run_id: str
    name: str
    project: str | None = None
    job_id: str | None = None
    state: str = "starting"
    created_at: float | None = None
    ended_at: float | None = None
    world_size: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    ranks: tuple[Rank, ...] = ()


@dataclass(frozen=True, slots=True)
class Points:
    """New values of one metric of one rank since the snapshot before: three columns of equal length.

    ``times`` are wall-clock seconds since the epoch. The first snapshot of a stream carries each run's past, decimated
    so that the smallest and largest value of each stretch stay in.
    """

    run_id: str
    rank: int
    metric: str
    steps: tuple[int, ...]
    times: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SamplerCost:
    """What watching cost: CPU share of the agent, time for this reading, NVML calls made for it."""

    cpu_percent: float | None = None
    read_s: float | None = None
    nvml_calls: int | None = None
    memory_rss_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is known about one machine at one moment."""

    sequence: int
    time: float
    """Wall clock, seconds since the epoch."""
    monotonic_s: float
    interval_s: float
    host: Host
    devices: tuple[Device, ...] = ()
    processes: tuple[Process, ...] = ()
    runs: tuple[Run, ...] = ()
    points: tuple[Points, ...] = ()
    cost: SamplerCost = SamplerCost()
    notes: tuple[Problem, ...] = ()
    """Problems of the machine as a whole that hide something (process list refused, container without host PIDs)."""
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """Return the snapshot as one line of JSON, without a newline."""
        return json.dumps(encode(self), separators=(",", ":"), allow_nan=False)

    @staticmethod
    def from_json(line: str | bytes) -> Snapshot:
        """Read a snapshot back.

        Raises:
            FormatError: the line is no snapshot, or one of a newer schema.
        """
        try:
            data = json.loads(line)
        except ValueError as error:
            raise FormatError(f"not a line of JSON: {error}") from error
        if not isinstance(data, dict) or "schema_version" not in data:
            raise FormatError("a snapshot is a JSON object with a schema_version")
        if data["schema_version"] > SCHEMA_VERSION:
            raise FormatError(f"schema_version {data['schema_version']} is newer than this gputop reads ({SCHEMA_VERSION})")
        return decode(Snapshot, data)


class FormatError(ValueError):
    """A line or file is not what gputop writes."""


_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def encode(value: Any) -> Any:
    """Turn records into what ``json`` writes; NaN and infinities become strings."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    names = _field_names(type(value))
    return {name: encode(getattr(value, name)) for name in names}


_names: dict[type, tuple[str, ...]] = {}


def _field_names(kind: type) -> tuple[str, ...]:
    found = _names.get(kind)
    if found is None:
        if not dataclasses.is_dataclass(kind):
            raise TypeError(f"{kind.__name__} has no JSON form")
        found = _names[kind] = tuple(item.name for item in dataclasses.fields(kind))
    return found


def decode(kind: type[T], data: Any) -> T:
    """Build a record of ``kind`` from decoded JSON; unknown keys are ignored, so that older readers read newer minor forms.

    Raises:
        FormatError: a required field is missing or of the wrong shape.
    """
    try:
        return typing.cast(T, _decoder(kind)(data))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise FormatError(f"not a {kind.__name__}: {error}") from error


_decoders: dict[Any, Callable[[Any], Any]] = {}


def _decoder(kind: Any) -> Callable[[Any], Any]:
    found = _decoders.get(kind)
    if found is None:
        found = _decoders[kind] = _make_decoder(kind)
    return found


def _make_decoder(kind: Any) -> Callable[[Any], Any]:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [arg for arg in typing.get_args(kind) if arg is not type(None)]
        convert = _decoder(inner[0])
        return lambda value: None if value is None else convert(value)
    if origin is tuple:
        arguments = typing.get_args(kind)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            item = _decoder(arguments[0])
            return lambda value: tuple([item(part) for part in value])
        parts = [_decoder(argument) for argument in arguments]
        return lambda value: tuple(part(element) for part, element in zip(parts, value, strict=True))
    if kind is float:
        return _decode_float
    if kind is int:
        return _decode_int
    if origin is not None and issubclass(origin, Mapping):
        _, value_kind = typing.get_args(kind)
        convert = _decode_any if value_kind is Any else _decoder(value_kind)
        return lambda value: {key: convert(item) for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return _make_record_decoder(kind)
    if kind is Any:
        return _decode_any
    if kind in (str, bool):
        return lambda value: _checked(kind, value)
    raise TypeError(f"no decoder for {kind}")


def _make_record_decoder(kind: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)
    converters = {item.name: _decoder(hints[item.name]) for item in dataclasses.fields(kind)}

    def convert(value: Any) -> Any:
        return kind(**{name: converters[name](item) for name, item in value.items() if name in converters})

    return convert


def _decode_any(value: Any) -> Any:
    return value


def _checked(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {kind.__name__}, found {value!r}")
    return value


def _decode_float(value: Any) -> float:
    if isinstance(value, str):
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)


def _decode_int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected an integer, found {value!r}")
    return value
