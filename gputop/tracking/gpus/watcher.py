"""A thread of a rank that records its GPU's readings, unless a viewer has just done so.

It starts once the rank has reported its GPU, which happens when CUDA is in use: a training on the CPU has no such thread. It
sleeps between readings and waits for nothing. The end of the run waits for it, but not for long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gputop.tracking.gpus import record
from gputop.tracking.gpus.driver import Driver
from gputop.tracking.journal.worker import Worker

END_WAIT_S = 0.2
"""How long the end of a run waits for a reading; a driver that hangs must not delay it."""


class GpuWatcher:
    """Records the GPU of one rank for as long as its run lasts."""

    def __init__(self, directory: Path, began: float, devices: Callable[[], Any], ended: Callable[[], bool]) -> None:
        """``began``: wall clock. ``devices`` returns the rank's fact of that name; ``ended``, whether the run is over."""
        self._directory = directory
        self._began = began
        self._devices = devices
        self._ended = ended
        self._driver: Driver | None = None
        self._worker = Worker(self._work)

    def start_if_needed(self) -> None:
        """Start the thread once there is a GPU to read; called on the journal's thread, again and again."""
        if not self._worker.is_running and _uuids(self._devices()):
            self._worker.start()

    def end(self) -> None:
        """End the thread, so that no exit handler runs at the same time as the driver's library; called when the run ends."""
        self._worker.stop()
        if not sys.is_finalizing():
            self._worker.join(END_WAIT_S)

    def _work(self) -> None:
        worker = self._worker
        while not worker.has_to_leave():
            if self._ended():
                return
            try:
                self._record()
            except Exception:  # noqa: BLE001 - no driver's library, or a strange one: the run then shows no GPU of its past
                worker.stop()
                return
            worker.sleep(record.interval_s(self._began))

    def _record(self) -> None:
        for uuid in _uuids(self._devices()):
            if record.is_due(self._directory, uuid, self._began):
                if self._driver is None:
                    self._driver = Driver()
                reading = self._driver.read(uuid)
                if reading is not None and not self._ended():
                    record.add(self._directory, reading, self._began)


def _uuids(devices: Any) -> Sequence[str]:
    """Return the UUIDs in the fact ``devices``."""
    stated = devices if isinstance(devices, list) else []
    return [device["uuid"] for device in stated if isinstance(device, dict) and isinstance(device.get("uuid"), str)]
