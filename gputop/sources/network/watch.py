"""Watches the machine's network while a run has ranks on other machines: interfaces, RDMA ports, and the ranks' connections.

A driver may take seconds to answer, so a thread of its own reads every ``READ_S`` seconds, and stops when the run ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gputop.network.records import LINK_WINDOW_S, WINDOW_S, Interface, NetworkPath
from gputop.sources.network.interfaces import Counters, InterfaceFiles, Link
from gputop.sources.network.paths import WRAP, Paths, forget

READ_S = 5.0
"""How often to read the counters."""
LINK_READ_S = 60.0
"""How often to query a driver for speed and duplex while the link stays up or down."""
TOO_OLD_S = 30.0
"""Readings older than this are not passed on: a driver has stopped answering."""
_COUNTS = tuple(each.name for each in fields(Counters))


@dataclass(frozen=True, slots=True)
class Network:
    """The newest readings, as ``Snapshot`` has them."""

    interfaces: tuple[Interface, ...] = ()
    paths: tuple[NetworkPath, ...] = ()


class NetworkWatch:
    """Keeps the newest readings of the network. ``poll`` never waits."""

    def __init__(self, reader: Callable[[], NetworkReader] | None = None) -> None:
        self._make_reader = reader or NetworkReader
        self._pids: frozenset[int] = frozenset()
        self._found = Network()
        self._found_at_s = 0.0
        self._error: Exception | None = None
        self._wake = threading.Event()
        self._has_read = threading.Event()
        self._thread: threading.Thread | None = None

    def poll(self, pids: Collection[int]) -> Network:
        """Return what is known of the network.

        Args:
            pids: This machine's ranks of runs that have ranks elsewhere; without any, nothing is read.

        Raises:
            Exception: what an unexpected failure of the reader raised, once.
        """
        self._pids = frozenset(pids)
        if not self._pids:
            self._found = Network()
            self._has_read.clear()
            return self._found
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="network", daemon=True)
            self._thread.start()
        self._wake.set()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._found if time.monotonic() - self._found_at_s < TOO_OLD_S else Network()

    def wait(self, timeout_s: float) -> Network:
        """Return the first readings, which have no counts yet; wait for them at most ``timeout_s`` seconds."""
        return self._found if self._pids and self._has_read.wait(timeout_s) else Network()

    def _run(self) -> None:
        reader = self._make_reader()
        while self._wake.wait():
            pids = self._pids
            if not pids:
                # What was counted before a pause says nothing about the next run.
                reader = self._make_reader()
                self._wake.clear()
                continue
            try:
                found = reader.read(pids, time.monotonic())
            except Exception as error:  # noqa: BLE001 - the sampler reports it
                self._error = error
            else:
                self._found_at_s = time.monotonic()
                self._found = found if self._pids else Network()
                self._has_read.set()
            time.sleep(READ_S)


class NetworkReader:
    """Reads the network now and then, and counts over the last minute. Not thread-safe."""

    def __init__(self, files: InterfaceFiles | None = None) -> None:
        self._files = files or InterfaceFiles()
        self._pasts: dict[str, _Past] = {}
        self._ports: dict[str, _Past] = {}
        self._paths = Paths()

    def read(self, pids: Collection[int], now_s: float) -> Network:
        """Read everything once; ``now_s`` is monotonic seconds."""
        paths = self._paths.read(pids, now_s)
        used = {path.interface for path in paths if path.interface is not None}
        return Network((*self._interfaces(used, now_s), *self._rdma(now_s)), paths)

    def _interfaces(self, used: Collection[str], now_s: float) -> list[Interface]:
        counters = self._files.read_counters()
        described = self._files.describes(counters)
        if not described:  # an interface may have come or gone between the two, as those of containers do
            counters = self._files.read_counters()
            described = self._files.describes(counters)
        found = []
        for name, counted in counters.items():
            past = self._pasts.setdefault(name, _Past())
            if described and past.is_passed_over(name in used, now_s):
                continue
            if described:
                changes = self._files.read_link_changes(name)
                if past.due(changes, now_s):
                    past.link = self._files.read_link(name)
                state, link = self._files.read_state(name), past.link
            else:
                changes, state, link = None, None, Link("virtual")
            past.add(now_s, replace(counted, link_changes=changes))
            if link is not None and (link.kind != "virtual" or name in used):
                past.listed = past.record(name, link, state)
                found.append(past.listed)
        return found + _gone(self._pasts, counters)

    def _rdma(self, now_s: float) -> list[Interface]:
        found, names = [], set()
        for adapter, port in self._files.rdma_ports():
            name = f"{adapter}/{port}"
            names.add(name)
            past = self._ports.setdefault(name, _Past())
            link, state = self._files.read_rdma_link(adapter, port)
            past.add(now_s, self._files.read_rdma_counters(adapter, port))
            past.listed = past.record(name, link, state)
            found.append(past.listed)
        return found + _gone(self._ports, names)


def _gone(pasts: dict[str, _Past], names: Collection[str]) -> list[Interface]:
    """Return the interfaces with a device that are no longer there; forget all others."""
    gone = []
    for name in [name for name in pasts if name not in names]:
        listed = pasts[name].listed
        if listed is None or listed.kind == "virtual":
            del pasts[name]
        else:
            gone.append(Interface(name, listed.kind, state="gone", master=listed.master))
    return gone


@dataclass(slots=True)
class _Past:
    """The readings of one interface in the last minute, and what it is."""

    link: Link | None = None
    listed: Interface | None = None
    readings: deque[tuple[float, Counters]] = field(default_factory=deque)
    changes: deque[tuple[float, int]] = field(default_factory=deque)
    link_read_s: float | None = None
    link_at: int | None = None

    def is_passed_over(self, used: bool, now_s: float) -> bool:
        """Return whether it never leaves the machine, or is virtual and unused: containers bring hundreds of those."""
        if self.link_read_s is None or now_s - self.link_read_s >= LINK_READ_S:
            return False
        return self.link is None or (self.link.kind == "virtual" and not used)

    def due(self, changes: int | None, now_s: float) -> bool:
        """Return whether to ask the driver again, and note that it is asked."""
        if self.link_read_s is not None and changes == self.link_at and now_s - self.link_read_s < LINK_READ_S:
            return False
        self.link_read_s, self.link_at = now_s, changes
        return True

    def add(self, now_s: float, counters: Counters) -> None:
        if self.readings and not _continues(self.readings[-1][1], counters):
            self.readings.clear()
        self.readings.append((now_s, counters))
        forget(self.readings, now_s - WINDOW_S)
        if counters.link_changes is not None:
            if self.changes and self.changes[-1][1] > counters.link_changes:
                self.changes.clear()
            self.changes.append((now_s, counters.link_changes))
            forget(self.changes, now_s - LINK_WINDOW_S)

    def record(self, name: str, link: Link, state: str | None) -> Interface:
        """Return the interface with its counts in the window."""
        (then_s, before), (now_s, now) = self.readings[0], self.readings[-1]
        counts: dict[str, Any] = {}
        if now_s > then_s:
            counts = {each: _grown(getattr(before, each), getattr(now, each)) for each in _COUNTS if each != "link_changes"}
            counts["window_s"] = now_s - then_s
        changed = self.changes[-1][1] - self.changes[0][1] if len(self.changes) > 1 else None
        return Interface(
            name,
            link.kind,
            state=state,
            speed_mbit_per_s=link.speed_mbit_per_s,
            duplex=link.duplex,
            mtu=link.mtu,
            master=link.master,
            link_changes=changed,
            **counts,
        )


def _continues(before: Counters, now: Counters) -> bool:
    pairs = [(getattr(before, each), getattr(now, each)) for each in ("received_bytes", "sent_bytes", "errors")]
    return all(old is None or new is None or _grown(old, new) is not None for old, new in pairs)


def _grown(before: int | None, now: int | None) -> int | None:
    """Return by how much a counter grew, even if it wrapped at 32 bits; None if it is unknown or was reset."""
    if before is None or now is None:
        return None
    if now >= before:
        return now - before
    wrapped = now + WRAP - before
    return wrapped if before < WRAP and wrapped < WRAP // 2 else None
