"""The NVIDIA source: loads the driver's library, keeps a worker per GPU, and combines their newest readings.

The readings themselves are in ``device``, the calls in ``calls``. Nothing here waits for the driver, except
``start`` for at most INIT_DEADLINE_S.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputop.errors import NoGpuError
from gputop.snapshot import Device, DeviceUse, HostSource, Problem
from gputop.sources.base import Claim, Reading
from gputop.sources.nvml import problems
from gputop.sources.nvml.calls import SUCCESS, Calls, initialize
from gputop.sources.nvml.device import placeholder_uuid
from gputop.sources.nvml.events import XidWatch
from gputop.sources.nvml.first_look import is_simulated
from gputop.sources.nvml.rounds import Rounds
from gputop.sources.nvml.worker import Worker

INIT_DEADLINE_S = 5.0
"""A driver whose initialization takes longer counts as hanging."""
FIRST_READING_S = 0.3
"""How long the first ``read`` waits, so that the first picture has values."""
STALE_INTERVALS = 3
"""After this many intervals without a new reading, a GPU is stale."""
STALE_MIN_S = 1.0
"""Lower limit for short intervals: a driver that takes 20 ms per call needs a third of a second for a reading."""


@dataclass
class _Machine:
    """What the driver reports at start."""

    code: int = SUCCESS
    error: NoGpuError | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    gpu_count: int = 0
    calls: int = 0


class NvmlSource:
    """Reads NVIDIA GPUs through NVML."""

    name: HostSource = "nvml"

    def __init__(self) -> None:
        self._machine = _Machine()
        self._workers: list[Worker] = []
        self._rounds = Rounds(1.0)
        self._xids = XidWatch(0)
        self._interval_s = 1.0
        self._has_read = False
        self._calls_reported = 0

    def start(self, interval_s: float) -> None:
        """Initialize NVML and start reading; a later call changes the interval.

        Raises:
            NoGpuError: the driver is missing, does not match, does not answer, or has no GPU; see its ``code``.
        """
        self._interval_s = interval_s
        if self._workers:
            for worker in self._workers:
                worker.set_interval(interval_s)
            self._rounds.set_interval(interval_s)
            return
        self._machine = _start_driver()
        machine = self._machine
        self._rounds = Rounds(interval_s)
        self._workers = [Worker(index, interval_s, machine.driver_version, self._rounds) for index in range(machine.gpu_count)]
        for worker in self._workers:
            worker.start()
        self._xids = XidWatch(self._machine.gpu_count)
        self._xids.start()

    def read(self, claims: Sequence[Claim] = ()) -> Reading:
        """Return the newest readings; the first call waits up to FIRST_READING_S for them. Ignores ``claims``."""
        if not self._has_read:
            self._has_read = True
            deadline = time.monotonic() + FIRST_READING_S
            for worker in self._workers:
                worker.first.wait(max(0.0, deadline - time.monotonic()))
        self._rounds.leave_hanging_call()
        now = time.monotonic()
        devices: list[Device] = []
        uses: dict[int, tuple[DeviceUse, ...]] = {}
        noted: dict[str, list[int]] = {}
        for worker in self._workers:
            published = worker.published
            if published is None:
                devices.append(self._with_xids(self._without_reading(worker, now)))
                continue
            age = now - published.at
            devices.append(self._with_xids(self._with_age(worker, published.device, age)))
            devices += [self._with_age(worker, device, age) for device in published.migs]
            for note in published.notes:
                noted.setdefault(note, []).append(worker.index)
            for pid, on_device in published.uses.items():
                uses[pid] = (*uses[pid], *on_device) if pid in uses else on_device
        machine = self._machine
        return Reading(
            devices=tuple(devices),
            uses=uses,
            driver_version=machine.driver_version,
            cuda_version=machine.cuda_version,
            simulated=is_simulated(machine.driver_version),
            notes=tuple(problems.NOTES[note](indices) for note, indices in noted.items()),
            nvml_calls=self._calls_since_last(),
        )

    def wait_until_whole(self, timeout_s: float, rates: bool = True) -> None:
        """Wait until every GPU has been read twice, and thus completely, for at most ``timeout_s``: a driver may hang.

        Without ``rates``, one reading of each GPU and its processes is enough.
        """
        deadline = time.monotonic() + timeout_s
        for worker in self._workers:
            (worker.whole if rates else worker.first).wait(max(0.0, deadline - time.monotonic()))

    def want_pcie(self, wanted: bool) -> None:
        """Allow the blocking PCIe call (20 ms per direction) on GPUs where neither GPM nor a counter provides the throughput.

        Off by default: the dashboard shows the throughput only if it costs nothing. The GPU screen requests it.
        """
        for worker in self._workers:
            worker.want_pcie(wanted)

    def close(self) -> None:
        """Ask the workers to end, without waiting.

        NVML is not shut down: that is also a driver call, and it frees what a worker may still be using. The operating
        system releases everything when the process ends.
        """
        self._xids.stop()
        self._rounds.stop()
        for worker in self._workers:
            worker.stop()
        self._workers = []

    def _calls_since_last(self) -> int:
        total = self._machine.calls + self._xids.calls + sum(worker.calls for worker in self._workers)
        reported, self._calls_reported = self._calls_reported, total
        return total - reported

    def _stale_after_s(self) -> float:
        return max(STALE_INTERVALS * self._interval_s, STALE_MIN_S)

    def _with_xids(self, device: Device) -> Device:
        errors = self._xids.errors(device.index)
        return replace(device, xid_errors=errors) if errors else device

    def _with_age(self, worker: Worker, device: Device, age_s: float) -> Device:
        if age_s <= self._stale_after_s() or device.state == "lost":
            return device
        return replace(device, state="stale", age_s=age_s, problem=_why_stale(worker, age_s))

    def _without_reading(self, worker: Worker, now: float) -> Device:
        """Return a GPU without a first reading: unknown values, and after a while the reason."""
        age = now - worker.started_at
        problem = _why_stale(worker, age) if age > self._stale_after_s() else None
        return Device(index=worker.index, uuid=placeholder_uuid(worker.index), state="stale", age_s=age, problem=problem)


def _why_stale(worker: Worker, age_s: float) -> Problem:
    return problems.hung(worker.index, age_s) if worker.alive else problems.stopped(worker.index)


def _start_driver() -> _Machine:
    """Initialize NVML in a thread, because that can hang too.

    Raises:
        NoGpuError: it failed, or did not return in time.
    """
    machine = _Machine()
    done = threading.Event()

    def ask() -> None:
        try:
            machine.code = initialize()
        except NoGpuError as error:
            machine.error = error
        if machine.error is None and machine.code == SUCCESS:
            calls = Calls()
            machine.driver_version = calls.text("nvmlSystemGetDriverVersion")[1]
            number = ctypes.c_int()
            if calls("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(number)) == SUCCESS:
                machine.cuda_version = f"{number.value // 1000}.{number.value % 1000 // 10}"
            count = ctypes.c_uint()
            machine.code = calls("nvmlDeviceGetCount_v2", ctypes.byref(count))
            machine.gpu_count = count.value
            machine.calls = calls.count + 1
        done.set()

    threading.Thread(target=ask, name="nvml-start", daemon=True).start()
    if not done.wait(INIT_DEADLINE_S):
        raise problems.driver_hangs(INIT_DEADLINE_S)
    if machine.error is not None:
        raise machine.error
    if machine.code != SUCCESS:
        raise problems.cannot_start(machine.code)
    if not machine.gpu_count:
        raise problems.no_device()
    return machine
