"""Follows the hosts that a Prometheus server knows: one thread asks for all of them.

The hosts are those that the server knows at the start; a caller can ask to be notified of later ones. New readings are passed
on when there are new samples, not with every query: rules that count observations must not count one sample several times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from gputop.agent.live import BACKOFF_S
from gputop.errors import GputopError
from gputop.hosts.following import Deliver, Links
from gputop.hosts.names import HOSTS_MAX
from gputop.hosts.prometheus import names
from gputop.hosts.prometheus.client import Client, QueryError, Series, Server
from gputop.hosts.prometheus.reading import HostReading, hosts_in, target_of
from gputop.hosts.retries import varied
from gputop.hosts.state import Failure, HostStatus, unread
from gputop.hosts.stream import Heard
from gputop.snapshot import Host, Problem, Snapshot
from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S

KNOWN_EVERY_S = 60.0
"""How often to ask which targets report GPUs: rarely, because the server searches an hour of data for it."""
ASKED_MOST_S = 15.0
"""The longest pause between two queries, unless the user's interval is longer."""
RESTS = 3.0
"""The pause after a reading is at least this many times as long as the reading, to spare a slow server."""
JOBS_MOST = 64
"""How many scrape jobs a query names."""
NOTE = Problem("gpus_only", "Prometheus knows GPUs, but not processes and runs.", "Watch this host with -H to see them.")


class Reader:
    """Reads all hosts of one server at once. For one thread."""

    def __init__(self, server: Server) -> None:
        self._client = Client(server)
        self._known: list[Series] = []
        self._known_at: float | None = None

    def read(self) -> dict[str, HostReading]:
        """Return what the server knows of each host.

        Raises:
            QueryError: it does not answer.
        """
        now = time.monotonic()
        if self._known_at is None or now - self._known_at > KNOWN_EVERY_S:
            self._known, self._known_at = self._client.ask(names.KNOWN), now
        jobs = tuple(sorted({target_of(series.metric)[0] for series in self._known}))[:JOBS_MOST]
        scrapes = self._client.ask(names.scrapes(jobs)) if jobs else []
        sampled = self._client.ask(names.SAMPLED)
        return hosts_in(self._known, sampled, scrapes, self._client.ask(names.VALUES))


class Watch:
    """Reads a server as long as one of its hosts is followed, or a caller waits for more hosts."""

    def __init__(self, server: Server, interval_s: float) -> None:
        """Read it once.

        Raises:
            GputopError: it does not answer, or knows no GPU.
        """
        self._reader = Reader(server)
        self._interval_s = interval_s
        self._readings: Mapping[str, HostReading] = {}
        self._failure: Failure | None = None
        self._read()
        if self._failure is not None:
            raise GputopError(self._failure.message, self._failure.hint)
        if not self._readings:
            what = f"Prometheus at {server.url} has seen no GPU in the last hour."
            raise GputopError(what, "It reads dcgm-exporter, nvitop-exporter, nvidia_gpu_exporter, all-smi, and gputop export.")
        self.hosts = tuple(self._readings)[:HOSTS_MAX]
        self.left_out = len(self._readings) - len(self.hosts)
        """How many more hosts the server knows."""
        self._lock = threading.Lock()
        """Held while the lists of hosts change."""
        self._followed: list[PrometheusHost] = []
        self._new: list[PrometheusHost] = []
        """Those that have received nothing yet."""
        self._started = False
        self._tell_new: Callable[[Links], object] | None = None
        self._is_left_out: Callable[[str], bool] = lambda host: True
        self._changed = threading.Event()

    def links(self, without: Callable[[str], bool] = lambda host: False) -> Links:
        """Return the streams of the hosts, except for those that ``without`` leaves out."""
        return {host: partial(PrometheusHost, self, host) for host in self.hosts if not without(host)}

    def announce(self, tell: Callable[[Links], object], without: Callable[[str], bool] = lambda host: False) -> None:
        """Call ``tell`` with the streams of hosts that the server learns of from now on, in the watch's own thread.

        The thread runs from now on; no host may be followed before this call. ``without`` says which hosts to leave out.
        """
        with self._lock:
            self._tell_new, self._is_left_out = tell, without
            self._start()

    def _announce(self) -> None:
        if self._tell_new is None:
            return
        known = set(self.hosts)
        new = [host for host in self._readings if host not in known and not self._is_left_out(host)]
        new = new[: HOSTS_MAX - len(self.hosts)]
        if new:
            self.hosts += tuple(new)
            self._tell_new({host: partial(PrometheusHost, self, host) for host in new})

    def once(self) -> tuple[Heard, ...]:
        """Return what was read of each host."""
        heard: dict[str, Heard] = {}
        for host in self.hosts:
            one = PrometheusHost(self, host, partial(heard.__setitem__, host))
            one.take(self._readings[host], None)
        return tuple(heard[host] for host in self.hosts)

    def follow(self, host: PrometheusHost) -> None:
        """Pass on to ``host`` what is known and what arrives, in the watch's own thread."""
        with self._lock:
            self._followed.append(host)
            self._new.append(host)
            self._changed.set()
            self._start()

    def _start(self) -> None:
        """Start the thread unless it runs. The caller holds the lock."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, daemon=True, name="host-prometheus").start()

    def leave(self, host: PrometheusHost) -> None:
        """Pass on nothing more to ``host``; after the last one, stop."""
        with self._lock:
            if host in self._followed:
                self._followed.remove(host)
        self._changed.set()

    def want(self, interval_s: float) -> None:
        """Change the interval; it never asks more often than there are new samples."""
        self._interval_s = interval_s

    def _run(self) -> None:
        failures, due = 0, time.monotonic() + self._wait_s()
        while True:
            self._changed.wait(max(0.0, due - time.monotonic()))
            with self._lock:
                self._changed.clear()
                new, self._new = self._new, []
                followed = list(self._followed)
                if not followed and self._tell_new is None:
                    self._started = False
                    return
            if time.monotonic() < due:
                self._tell(new)
                continue
            began = time.monotonic()
            self._read()
            self._announce()
            self._tell(followed)
            took_s = time.monotonic() - began
            failures = failures + 1 if self._failure is not None else 0
            wait_s = BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] if failures else max(self._wait_s(), RESTS * took_s)
            due = time.monotonic() + (varied(wait_s) if failures else wait_s)

    def _read(self) -> None:
        """Read what is new, or keep why there is nothing new."""
        try:
            self._readings, self._failure = self._reader.read(), None
        except QueryError as error:
            self._failure = error.failure
        except Exception as error:  # noqa: BLE001 - what a server sends must not end the thread that would read it again
            self._failure = unread(error)

    def _tell(self, hosts: Sequence[PrometheusHost]) -> None:
        for host in hosts:
            host.take(self._readings.get(host.status.host), self._failure)

    def _wait_s(self) -> float:
        """Return how long to wait for the next samples: half of the shortest interval between scrapes."""
        shortest = min(
            (reading.interval_s for reading in self._readings.values() if reading.state == "live"), default=ASKED_MOST_S
        )
        return max(self._interval_s, min(ASKED_MOST_S, shortest / 2))


class PrometheusHost:
    """One host of a server that is watched. It is a ``Following``, to which nothing can be sent."""

    def __init__(self, watch: Watch, host: str, deliver: Deliver) -> None:
        self.status = HostStatus(host)
        self.failures = 0
        self._watch = watch
        self._deliver = deliver
        self._sequence = 0
        self._sampled_at: float | None = None

    def start(self) -> None:
        """Follow the host."""
        self._watch.follow(self)

    def keep_wanting(self, command: Mapping[str, Any]) -> None:
        """Set the interval; there is nothing else to set."""
        if isinstance(interval_s := command.get("interval_s"), float):
            self._watch.want(interval_s)

    def send(self, command: Mapping[str, Any]) -> None:
        """Do nothing: a server reads no commands."""

    def close(self) -> None:
        """Stop following it."""
        self._watch.leave(self)

    def take(self, reading: HostReading | None, failure: Failure | None) -> None:
        """Process what the server knows about the host, or why it knows nothing."""
        if failure is None and reading is None:
            failure = Failure("old_samples", "Prometheus no longer knows it.", "Check the exporter there.")
        if failure is None and reading is not None and reading.state != "live":
            failure = Failure(reading.state, reading.message, reading.hint)
        if failure is not None:
            self.failures += 1
            is_news = failure.state != self.status.state
            since = time.time() if is_news else self.status.since
            hint = failure.hint or None
            self.status = replace(self.status, state=failure.state, since=since, message=failure.message, hint=hint)
            if is_news:
                self._deliver(Heard(self.status))
            return
        assert reading is not None
        self.failures = 0
        if self.status.state == "live" and reading.sampled_at == self._sampled_at:
            return
        self._sampled_at, self._sequence = reading.sampled_at, self._sequence + 1
        age_s = reading.age_s or 0.0
        sampled_at = time.time() - age_s  # by this machine's clock
        since = self.status.since if self.status.state == "live" else sampled_at
        self.status = HostStatus(self.status.host, "live", since, last_heard_at=sampled_at)
        snapshot = Snapshot(
            sequence=self._sequence,
            time=sampled_at,
            monotonic_s=time.monotonic() - age_s,
            interval_s=min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, reading.interval_s)),
            host=reading.host or Host(self.status.host, source="prometheus"),
            devices=reading.devices,
            notes=(NOTE,),
        )
        self._deliver(Heard(self.status, snapshot))
