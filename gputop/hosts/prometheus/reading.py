"""Hosts in the answers of a Prometheus server: their GPUs, the age of the readings, and which exporters are down. Pure.

Ages are differences of the server's own times: whether its clock agrees with this machine's does not matter.
"""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop import units
from gputop.device import Device, Host
from gputop.hosts.checked import MOST
from gputop.hosts.prometheus.client import Series
from gputop.hosts.prometheus.names import BY_METRIC, EXPORTERS, HOST_LABELS, HOST_READINGS, MIB, Exporter
from gputop.hosts.state import HostState
from gputop.terminal_text import printable

OLD_S, OLD_INTERVALS = 60.0, 2.5
"""Samples are old after this long, or after this many scrape intervals if that is longer."""
INTERVAL_UNKNOWN_S = 60.0
"""Prometheus' own default for the time between scrapes."""
VALUE_MAX = 1e14
"""No reading of a GPU is larger: DCGM writes numbers from 140737488355328 on for unknown values."""
NAME_MAX = 200
"""A longer label is cut."""
_BELOW_ZERO = frozenset(("temperature_c", "memory_temperature_c"))
_WHOLE = frozenset(
    ("memory_used_bytes", "memory_total_bytes", "memory_reserved_bytes", "performance_state", "pcie_generation", "pcie_width")
)
_UUID_PREFIX = "GPU-"
_BARE_UUID = re.compile("[0-9a-fA-F]{8}-")

Target = tuple[str, str]
"""What Prometheus scrapes: its labels ``job`` and ``instance``."""
Place = tuple[Target, str]
"""A host as one target reports it: one target may report several."""


@dataclass(frozen=True, slots=True)
class HostReading:
    """What is known about one host. ``devices`` is empty unless ``state`` is "live". Ages and intervals are in seconds."""

    state: HostState
    message: str = ""
    hint: str = ""
    sampled_at: float | None = None
    """When the samples were taken, by the server's clock."""
    age_s: float | None = None
    interval_s: float = INTERVAL_UNKNOWN_S
    devices: tuple[Device, ...] = ()
    host: Host | None = None


@dataclass(slots=True)
class _Scraped:
    """What one target knows about one host. ``up`` and ``interval_s`` are the target's."""

    sampled_at: float | None = None
    age_s: float | None = None
    up: bool | None = None
    interval_s: float | None = None

    @property
    def is_old(self) -> bool:
        limit = max(OLD_S, OLD_INTERVALS * (self.interval_s or INTERVAL_UNKNOWN_S))
        return self.age_s is None or self.age_s > limit

    @property
    def is_current(self) -> bool:
        return self.up is not False and not self.is_old


def hosts_in(
    known: Sequence[Series], sampled: Sequence[Series], scrapes: Sequence[Series], values: Sequence[Series]
) -> dict[str, HostReading]:
    """Return what the answers to ``names.KNOWN``, ``SAMPLED``, ``scrapes`` and ``VALUES`` say of each host, by its name."""
    places = _places(known, sampled, scrapes)
    gpus: dict[str, dict[Exporter, dict[str, _Gpu]]] = {}
    machines: dict[str, dict[str, Any]] = {}
    for series in values:
        host = host_of(series.metric)
        scraped = places.get((target_of(series.metric), host)) if host is not None else None
        if scraped is None or host is None or not scraped.is_current:
            continue
        name, number = series.metric.get("__name__", ""), _number(series)
        if name in HOST_READINGS:
            place, scale = HOST_READINGS[name]
            if number is not None and number >= 0:
                machines.setdefault(host, {})[place] = int(number * scale) if place.endswith("bytes") else number * scale
        elif (exporter := BY_METRIC.get(name)) is not None:
            uuid = _uuid(exporter, series.metric)
            if uuid is not None:
                of_exporter = gpus.setdefault(host, {}).setdefault(exporter, {})
                of_exporter.setdefault(uuid, _Gpu(uuid)).take(exporter, name, series.metric, number)
    found: dict[str, list[_Scraped]] = {}
    for (_, host), scraped in places.items():
        found.setdefault(host, []).append(scraped)
    return {
        host: _reading(host, scraped, gpus.get(host, {}), machines.get(host, {})) for host, scraped in sorted(found.items())
    }


def target_of(labels: Mapping[str, str]) -> Target:
    """Return what these labels were scraped from."""
    return labels.get("job", ""), labels.get("instance", "")


def host_of(labels: Mapping[str, str]) -> str | None:
    """Return the host that these labels name, a name rather than an address; None if they name none."""
    given = [text for label in HOST_LABELS if (text := printable(labels.get(label, "")).strip()[:NAME_MAX])]
    names = [_without_port(text) for text in given]
    return next((name for name in names if not _is_address(name)), names[0] if names else None)


def _without_port(text: str) -> str:
    host, colon, port = text.rpartition(":")
    return host.strip("[]") if colon and port.isdigit() and host and (":" not in host or host.endswith("]")) else text


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()


def _places(known: Iterable[Series], sampled: Iterable[Series], scrapes: Iterable[Series]) -> dict[Place, _Scraped]:
    places: dict[Place, _Scraped] = {}
    for series in known:
        host = host_of(series.metric)
        if host is not None:
            places.setdefault((target_of(series.metric), host), _Scraped())
    for series in sampled:
        number, host = _number(series), host_of(series.metric)
        if number is not None and series.value is not None and host is not None:
            scraped = places.setdefault((target_of(series.metric), host), _Scraped())
            if scraped.sampled_at is None or number > scraped.sampled_at:
                scraped.sampled_at, scraped.age_s = number, max(0.0, series.value[0] - number)
    targets: dict[Target, list[_Scraped]] = {}
    for (target, _), scraped in places.items():
        targets.setdefault(target, []).append(scraped)
    answered: dict[Target, list[tuple[float, str]]] = {}
    names: dict[Target, str | None] = {}
    for series in scrapes:
        points = [point for point in series.values if math.isfinite(point[0])]
        if points:
            target = target_of(series.metric)
            answered[target], names[target] = points, host_of(series.metric)
    # If all answering targets of a job report GPUs, it is a GPU job: a target of it that has been down for long is a host too.
    mixed = {target[0] for target, points in answered.items() if points[-1][1] == "1" and target not in targets}
    for target, points in answered.items():
        if target not in targets:
            host = names[target]
            if host is None or target[0] in mixed:
                continue
            targets[target] = [places.setdefault((target, host), _Scraped())]
        gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(points) if later[0] > earlier[0]]
        for scraped in targets[target]:
            scraped.up = points[-1][1] == "1"
            scraped.interval_s = statistics.median(gaps) if gaps else None
    return places


def _reading(
    host: str, scraped: Sequence[_Scraped], gpus: Mapping[Exporter, Mapping[str, _Gpu]], machine: Mapping[str, Any]
) -> HostReading:
    current = [one for one in scraped if one.is_current]
    if current and gpus:
        newest = max(current, key=lambda one: one.sampled_at or 0.0)
        devices, driver = _devices(gpus)
        return HostReading(
            "live",
            sampled_at=newest.sampled_at,
            age_s=newest.age_s,
            interval_s=newest.interval_s or INTERVAL_UNKNOWN_S,
            devices=devices,
            host=Host(host, source="prometheus", driver_version=driver, **machine),
        )
    if any(one.up is False for one in scraped):
        return HostReading("target_down", "Its exporter does not answer Prometheus.", "Check the exporter there.")
    ages = [one.age_s for one in scraped if one.age_s is not None]
    if ages:
        what = f"Its newest sample is {units.duration(min(ages))} old."
        return HostReading("old_samples", what, "Check that Prometheus runs, and still scrapes it.")
    return HostReading("old_samples", "Prometheus has no new sample of its GPUs.", "Check the exporter there.")


class _Gpu:
    """One GPU, as one exporter reports it."""

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self._values: dict[str, tuple[int, float]] = {}
        self._labels: dict[str, str] = {}
        self._free: float | None = None

    def take(self, exporter: Exporter, metric: str, labels: Mapping[str, str], number: float | None) -> None:
        """Add one series."""
        self._labels.update(labels)
        if number is None:
            return
        if metric == "DCGM_FI_DEV_FB_FREE":
            self._free = number * MIB
        for place, reading in enumerate(exporter.readings):
            if reading.metric != metric or (reading.label is not None and labels.get(reading.label[0]) != reading.label[1]):
                continue
            value = number * reading.scale
            if value < 0 and reading.field not in _BELOW_ZERO:
                continue
            if reading.field.endswith("_percent") and value > 100.5:  # a small difference is rounding; else unknown
                continue
            before = self._values.get(reading.field)
            if before is None or place <= before[0]:
                self._values[reading.field] = (place, value)

    def text(self, names: Sequence[str]) -> str | None:
        """Return the first label of these that is there."""
        found = (printable(self._labels.get(name, "")).strip()[:NAME_MAX] for name in names)
        return next((text for text in found if text), None)

    @property
    def index(self) -> int | None:
        """The index, if a metric has it."""
        found = self._values.get("index")
        return int(found[1]) if found is not None else None

    def device(self, exporter: Exporter, index: int) -> Device:
        """Return the GPU as a record."""
        values: dict[str, Any] = {name: value for name, (_, value) in self._values.items() if name != "index"}
        values = {name: int(value) if name in _WHOLE else value for name, value in values.items()}
        used, reserved = values.get("memory_used_bytes"), values.get("memory_reserved_bytes")
        if "memory_total_bytes" not in values and used is not None and self._free is not None:
            values["memory_total_bytes"] = int(used + self._free + (reserved or 0))  # DCGM has no field for it by default
        kind = "virtual" if exporter.name == "gputop export" and self._labels.get("kind") == "virtual" else "gpu"
        pci = self.text(("pci_bus_id",))
        return Device(index, self.uuid, self.text(exporter.gpu_name), kind, pci_bus_id=pci, **values)  # type: ignore[arg-type]


def _devices(gpus: Mapping[Exporter, Mapping[str, _Gpu]]) -> tuple[tuple[Device, ...], str | None]:
    """Return the GPUs of a host by index, each from the first exporter that reports it; and the driver's version."""
    chosen: dict[str, tuple[Exporter, _Gpu]] = {}
    for exporter in reversed(EXPORTERS):
        chosen.update({uuid: (exporter, gpu) for uuid, gpu in gpus.get(exporter, {}).items()})
    listed: list[tuple[int | None, str, Exporter, _Gpu]] = []
    for uuid, (exporter, gpu) in chosen.items():
        text = gpu.text(exporter.index)
        index = int(text) if text is not None and text.isdecimal() and len(text) < 5 else gpu.index
        if text is None or index is not None:  # "0:1" is a MIG instance, not a GPU
            listed.append((index, uuid, exporter, gpu))
    taken = {index for index, *_ in listed if index is not None}
    unused = (number for number in range(len(listed) + len(taken)) if number not in taken)
    found = [
        gpu.device(exporter, next(unused) if index is None else index)
        for index, _, exporter, gpu in sorted(listed, key=lambda item: (item[0] is None, item[0] or 0, item[1]))
    ]
    driver = next((text for _, _, exporter, gpu in listed if (text := gpu.text(exporter.driver))), None)
    return tuple(sorted(found, key=lambda device: device.index)[: MOST["devices"]]), driver


def _uuid(exporter: Exporter, labels: Mapping[str, str]) -> str | None:
    """Return a GPU's UUID in one form; nvidia_gpu_exporter leaves out what comes before the number."""
    if any(labels.get(label) for label in exporter.instance):
        return None
    text = next((text for label in exporter.uuid if (text := printable(labels.get(label, "")).strip()[:NAME_MAX])), None)
    if text is None:
        return None
    return _UUID_PREFIX + text if _BARE_UUID.match(text) else text


def _number(series: Series) -> float | None:
    """Return the value of a series; None if it is unknown."""
    if series.value is None or not math.isfinite(series.value[0]):
        return None
    try:
        number = float(series.value[1])
    except ValueError:
        return None
    return number if abs(number) < VALUE_MAX else None
