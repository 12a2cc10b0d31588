"""Asks the driver everything that gputop ever asks, and records each call's answer and time.

The calls are those of ``sources/nvml``, made by its own reader: nothing here asks more than the dashboard does.
"""

from __future__ import annotations

import ctypes
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gputop.snapshot import Device
from gputop.sources.nvml.calls import FUNCTION_NOT_FOUND, SUCCESS, Calls, DeviceGoneError, FieldValue, Handle
from gputop.sources.nvml.device import DeviceReader, open_device
from gputop.sources.nvml.throughput import PCIE_THROUGHPUT, read_pcie_blocking

TURNS = 5
PAUSE_S = 0.25
"""The pause between two turns: values from counters need some time in between."""
DEADLINE_S = 30.0
"""A driver that takes longer than this for one GPU hangs."""


@dataclass(slots=True)
class Call:
    """What one function of NVML answered: its last return code, and how long each call took, in microseconds."""

    code: int
    took_us: list[float] = field(default_factory=list)

    @property
    def median_us(self) -> float:
        """The median, in microseconds."""
        return statistics.median(self.took_us)


@dataclass(slots=True)
class Probe:
    """What one GPU answered. ``tiers_ms``: the median time of each part of a reading, in milliseconds."""

    index: int
    code: int = SUCCESS
    device: Device | None = None
    calls: dict[str, Call] = field(default_factory=dict)
    fields: dict[int, Call] = field(default_factory=dict)
    """By NVML's field id."""
    tiers_ms: dict[str, float] = field(default_factory=dict)
    asking: str = ""
    """The newest call; if ``finished`` is false, the one that did not return."""
    finished: bool = False
    """False if the driver did not answer in time."""


class _TimedCalls(Calls):
    """Notes the code and the time of each call."""

    def __init__(self, notes: Probe) -> None:
        super().__init__()
        self._notes = notes

    def __call__(self, function: str, *arguments: Any) -> int:
        self._notes.asking = function
        began = time.perf_counter()
        code = super().__call__(function, *arguments)
        took_us = (time.perf_counter() - began) * 1e6
        call = self._notes.calls.setdefault(function, Call(code))
        call.code = code
        if code != FUNCTION_NOT_FOUND:
            call.took_us.append(took_us)
        return code


def probe(index: int, deadline_s: float = DEADLINE_S) -> Probe:
    """Ask the GPU at ``index`` everything. NVML must have been initialized. Returns what was answered within ``deadline_s``."""
    found = Probe(index)
    # In a thread of its own: a call of a driver that hangs never returns, and cannot be interrupted.
    thread = threading.Thread(target=_ask_all, args=(found,), name=f"selftest-{index}", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return found


def _ask_all(found: Probe) -> None:
    calls = _TimedCalls(found)
    found.code, handle = open_device(found.index, calls)
    if found.code == SUCCESS:
        try:
            _ask(found, calls, handle)
        except DeviceGoneError as gone:
            found.code = gone.code
    found.finished = True


def _ask(found: Probe, calls: Calls, handle: Handle) -> None:
    reader = DeviceReader(found.index, handle, calls, Calls().text("nvmlSystemGetDriverVersion")[1])
    tiers: dict[str, Callable[[], object]] = {
        "layout": reader.read_mig,
        "interval": lambda: reader.read_fast(time.monotonic()),
        "state": reader.read_state,
        "processes": lambda: reader.read_processes(everything=True),
        "limits": reader.read_once,
        "slow": reader.read_slow,
        "rare": reader.read_rare,
    }
    took: dict[str, list[float]] = {name: [] for name in tiers}
    for _ in range(TURNS):
        reader.asker.begin()
        for name, read in tiers.items():
            began = time.perf_counter()
            read()
            took[name].append((time.perf_counter() - began) * 1e3)
        time.sleep(PAUSE_S)
    found.device = reader.device()
    found.tiers_ms = {name: statistics.median(times) for name, times in took.items()}
    for item in reader.fields:
        found.fields[item.id] = _ask_field(calls, handle, item.id, item.scope)
    began = time.perf_counter()
    read_pcie_blocking(reader.asker)
    found.tiers_ms[PCIE_THROUGHPUT] = (time.perf_counter() - began) * 1e3
    reader.close()


def _ask_field(calls: Calls, handle: Handle, field_id: int, scope: int) -> Call:
    """Ask for one field by itself: a batch reports the codes of its fields, but not what each one costs."""
    answer = Call(SUCCESS)
    array = (FieldValue * 2)()  # one more than requested, as in the batch
    for _ in range(TURNS):
        array[0].fieldId, array[0].scopeId = field_id, scope
        began = time.perf_counter()
        code = calls("nvmlDeviceGetFieldValues", handle, ctypes.c_int(1), ctypes.byref(array))
        answer.took_us.append((time.perf_counter() - began) * 1e6)
        answer.code = code or array[0].nvmlReturn
    return answer
