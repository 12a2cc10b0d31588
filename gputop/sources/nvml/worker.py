"""Reads one GPU and publishes the readings.

A GPU is read by its own thread while it is new or slow, and by the shared thread of ``rounds`` while it answers quickly. In
both cases, a hanging driver call affects no other GPU.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from gputop.snapshot import Device, DeviceUse
from gputop.sources.nvml import problems
from gputop.sources.nvml.calls import GPU_IS_LOST, RESET_REQUIRED, SUCCESS, Asker, Calls, DeviceGoneError
from gputop.sources.nvml.device import DeviceReader, open_device, placeholder_uuid
from gputop.sources.nvml.rounds import QUICK_S, Rounds, sleep_until
from gputop.sources.nvml.throughput import PCIE_THROUGHPUT, read_pcie_blocking

EVERY_S = {"processes": 2.0, "state": 3.0, "slow": 10.0, "rare": 60.0}
"""How often to read what is not read every interval. "state" is temperature, SM clock and throttle reasons."""
RETRY_GONE_S = 5.0
"""How often to retry a lost GPU: it returns after a reset."""
SECOND_TICK_AFTER_S = 0.2
"""GPM and counters need two readings, so the second follows soon after the first."""
ALONE_TICKS = 3
"""Number of readings that a GPU's own thread makes at least, because the first ones request everything."""

PCIE_KEPT_INTERVALS = 3
"""A blocking PCIe reading expires after this many intervals (plus a second): its call may hang."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a worker last read of its GPU, complete and immutable. ``at`` is monotonic seconds."""

    at: float
    device: Device
    migs: tuple[Device, ...] = ()
    uses: dict[int, tuple[DeviceUse, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Keys of ``problems.NOTES``."""


class Worker:
    """Reads the GPU at ``index`` every interval and publishes; ``published`` is None until the first reading.

    With ``rounds``, it joins them if the GPU answers quickly.
    """

    def __init__(self, index: int, interval_s: float, driver_version: str | None = None, rounds: Rounds | None = None) -> None:
        self.index = index
        self.interval_s = interval_s
        self._driver_version = driver_version
        self.started_at = time.monotonic()
        self.published: Published | None = None
        self.first = threading.Event()
        """Set once a first reading with processes is available, or the GPU is known not to provide one."""
        self.whole = threading.Event()
        """Set once the published reading has everything that this GPU reports, including what takes two readings."""
        self._calls = Calls()
        self._pcie_calls = Calls()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._reader: DeviceReader | None = None
        self._just_opened = True
        self._read_at: float | None = None
        self._due: dict[str, float] = {}
        self._retry_at = 0.0
        self._pcie_wanted = threading.Event()
        self._pcie: dict[str, float | None] = {}
        self._pcie_at = 0.0
        self._pcie_thread: threading.Thread | None = None
        self._rounds = rounds
        self.thread = threading.Thread(target=self.run, name=f"nvml-{index}", daemon=True)
        """The thread that reads this GPU now or read it last."""

    def start(self) -> None:
        """Start reading in a separate thread; again for a GPU that has left the rounds."""
        if self.thread.ident is not None:
            self.thread = threading.Thread(target=self.run, name=f"nvml-{self.index}", daemon=True)
        self.thread.start()

    @property
    def alive(self) -> bool:
        """False once the thread has ended."""
        return self.thread.is_alive()

    @property
    def calls(self) -> int:
        """NVML calls made for this GPU so far."""
        return self._calls.count + self._pcie_calls.count

    def set_interval(self, interval_s: float) -> None:
        """Read every ``interval_s`` from now on."""
        self.interval_s = interval_s
        self._wake.set()

    def want_pcie(self, wanted: bool) -> None:
        """Measure PCIe throughput with the blocking call, in a separate thread, if nothing else provides it."""
        if wanted:
            self._pcie_wanted.set()
        else:
            self._pcie_wanted.clear()
            self._pcie = {}

    def stop(self) -> None:
        """Ask the threads to end, without waiting."""
        self._stopped.set()
        self._pcie_wanted.set()
        self._wake.set()

    # -- the thread ------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read every interval in this thread, until the GPU joins the rounds or reading ends."""
        due = time.monotonic()
        ticks = 0
        while not self._stopped.is_set():
            began = time.monotonic()
            self.tick(began)
            ticks += 1
            if self._rounds is not None and ticks >= ALONE_TICKS and time.monotonic() - began <= QUICK_S:
                self._rounds.join(self)
                return
            after_s = min(self.interval_s, SECOND_TICK_AFTER_S) if ticks == 1 else self.interval_s
            # Missed ticks are not caught up.
            at = sleep_until(max(due + after_s, time.monotonic()), self._wake, self._stopped.is_set, lambda: self.interval_s)
            due = time.monotonic() if at is None else at
        self.finish()

    def finish(self) -> None:
        """Free what the reading has allocated; the reading thread calls this last."""
        if self._reader is not None:
            self._reader.close()

    def tick(self, now: float) -> None:
        """Read what is due at ``now`` (monotonic seconds) and publish it; the thread calls this every interval."""
        if self._reader is None and now < self._retry_at and self.published is not None:
            self._publish_again(now)
            return
        try:
            if self._reader is None:
                self._open(now)
            if self._reader is not None:
                self._read(self._reader, now)
        except DeviceGoneError as gone:
            self._publish_gone(gone.code)

    def _open(self, now: float) -> None:
        code, handle = open_device(self.index, self._calls)
        if code in (GPU_IS_LOST, RESET_REQUIRED):
            raise DeviceGoneError(code)
        if code != SUCCESS:
            self._retry_at = now + RETRY_GONE_S
            self._publish_without(replace(self._identity(), state="error", problem=problems.refused(self.index, code)))
            return
        self._reader = DeviceReader(self.index, handle, self._calls, self._driver_version)
        self._just_opened = True
        self._due = dict.fromkeys(EVERY_S, now)

    def _read(self, reader: DeviceReader, now: float) -> None:
        reader.asker.begin()
        first, self._just_opened = self._just_opened, False
        due = {tier for tier, at in self._due.items() if now >= at - self.interval_s / 4}
        for tier in due:
            self._due[tier] = now + EVERY_S[tier]
        if first:
            # On a slow driver, utilization and memory appear before everything else has been read.
            reader.read_mig()
            reader.read_fast(now)
            reader.read_state()
            self._publish(reader)
            reader.read_processes(everything=True)
            self._publish(reader)
            self.first.set()
            reader.read_once()
            reader.read_slow()
            reader.read_rare()
        else:
            if "slow" in due:
                reader.read_mig()
                reader.read_slow()
            reader.read_fast(now)
            if "state" in due:
                reader.read_state()
            if "processes" in due:
                reader.read_processes(everything="slow" in due)
            if "rare" in due:
                reader.read_rare()
        self._read_at = time.monotonic()
        self._publish(reader)
        if not first:
            self.whole.set()
        self._start_pcie_thread(reader)

    def _publish(self, reader: DeviceReader) -> None:
        device = reader.device()
        kept_s = PCIE_KEPT_INTERVALS * self.interval_s + 1
        if self._pcie and reader.blocking_pcie_only and time.monotonic() - self._pcie_at < kept_s:
            device = replace(device, **self._pcie, pcie_throughput_source="blocking")  # type: ignore[arg-type]
        migs = tuple(mig.device() for mig in reader.migs)
        self.published = Published(time.monotonic(), device, migs, reader.uses(), reader.notes())

    def _identity(self) -> Device:
        """Return the GPU's identity without readings."""
        if self.published is None:
            return Device(index=self.index, uuid=placeholder_uuid(self.index))
        published = self.published.device
        return Device(index=published.index, uuid=published.uuid, name=published.name, pci_bus_id=published.pci_bus_id)

    def _publish_gone(self, code: int) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._retry_at = time.monotonic() + RETRY_GONE_S
        self._publish_without(replace(self._identity(), state="lost", problem=problems.gone(self.index, code)))

    def _publish_without(self, device: Device) -> None:
        now = time.monotonic()
        age = None if self._read_at is None else now - self._read_at
        self.published = Published(now, replace(device, age_s=age))
        self.first.set()
        self.whole.set()

    def _publish_again(self, now: float) -> None:
        assert self.published is not None
        age = None if self._read_at is None else now - self._read_at
        self.published = replace(self.published, at=now, device=replace(self.published.device, age_s=age))

    # -- blocking PCIe reads ---------------------------------------------------------------------------------

    def _start_pcie_thread(self, reader: DeviceReader) -> None:
        if self._pcie_thread is None and self._pcie_wanted.is_set() and reader.blocking_pcie_only:
            self._pcie_thread = threading.Thread(target=self._run_pcie, name=f"nvml-pcie-{self.index}", daemon=True)
            self._pcie_thread.start()

    def _run_pcie(self) -> None:
        asker: Asker | None = None
        while self._pcie_wanted.wait() and not self._stopped.is_set():
            reader = self._reader
            if reader is not None and reader.blocking_pcie_only:
                if asker is None or asker.handle is not reader.handle:
                    asker = Asker(self._pcie_calls, reader.handle)
                try:
                    values = read_pcie_blocking(asker)
                except DeviceGoneError:
                    values = {}  # the other thread finds out too, and reports it
                self._pcie_at = time.monotonic()
                self._pcie = values if self._pcie_wanted.is_set() else {}
                if asker.never("pcie_rx_bytes_per_s", PCIE_THROUGHPUT):
                    self._pcie = {}
                    return
            self._stopped.wait(self.interval_s)
