"""Watches for Xid errors: the driver's own reports that something went wrong on a GPU (nvmlEventSetWait).

Has its own thread, because the call blocks. The thread waits WAIT_MS at a time and then checks whether to end; nothing ever
waits for it. The driver reports errors only while a watch exists; earlier ones are in the kernel's log.
"""

from __future__ import annotations

import ctypes
import threading
import time

from gputop.sources.nvml.calls import SUCCESS, TIMEOUT, XID_CRITICAL_ERROR, Calls, EventData, address_of, new_event_set
from gputop.sources.nvml.device import open_device

WAIT_MS = 8000
"""Long enough that these calls are negligible next to a GPU's eight per second, however few GPUs there are."""
RETRY_S = 5.0
"""Delay before a new watch after an error (such as a GPU that fell off the bus): the GPU may return after a reset."""
KEPT = 16
"""How many errors of each GPU are kept."""


class XidWatch:
    """Records the last Xid errors of each GPU since ``start``."""

    def __init__(self, gpu_count: int) -> None:
        self._gpu_count = gpu_count
        self._calls = Calls()
        self._errors: dict[int, tuple[tuple[float, int], ...]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml-xid", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting."""
        self._stopped.set()

    @property
    def calls(self) -> int:
        """NVML calls made so far."""
        return self._calls.count

    def errors(self, index: int) -> tuple[tuple[float, int], ...]:
        """Return (wall clock, Xid) of the last errors of the GPU at ``index``."""
        return self._errors.get(index, ())

    def _run(self) -> None:
        while not self._stopped.is_set():
            events = new_event_set()
            if self._calls("nvmlEventSetCreate", ctypes.byref(events)) != SUCCESS:
                return  # this driver does not support events
            watched = self._register(events)
            if watched:
                self._watch(events, watched)
            self._calls("nvmlEventSetFree", events)
            if not watched:
                return
            self._stopped.wait(RETRY_S)

    def _register(self, events: object) -> dict[int | None, int]:
        """Watch every GPU that supports it; return handle address -> index."""
        watched = {}
        for index in range(self._gpu_count):
            code, handle = open_device(index, self._calls)
            if code != SUCCESS:
                continue
            wanted = ctypes.c_ulonglong(XID_CRITICAL_ERROR)
            if self._calls("nvmlDeviceRegisterEvents", handle, wanted, events) == SUCCESS:
                watched[address_of(handle)] = index
        return watched

    def _watch(self, events: object, watched: dict[int | None, int]) -> None:
        """Process events until the driver fails or ``stop`` is called."""
        function = "nvmlEventSetWait_v2" if self._calls.has("nvmlEventSetWait_v2") else "nvmlEventSetWait"
        data = EventData()
        while not self._stopped.is_set():
            code = self._calls(function, events, ctypes.byref(data), ctypes.c_uint(WAIT_MS))
            if code == SUCCESS and data.eventType == XID_CRITICAL_ERROR:
                index = watched.get(address_of(data.device))
                if index is not None:
                    self._errors[index] = (*self.errors(index), (time.time(), int(data.eventData)))[-KEPT:]
            elif code not in (SUCCESS, TIMEOUT):
                return
