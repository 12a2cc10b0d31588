"""Serves the newest snapshot of a feed to Prometheus. The only module that imports prometheus_client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from gputop.agent.feed import Feed
from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.errors import GputopError, UsageError
from gputop.export.names import METRICS
from gputop.export.samples import Sample, samples_of
from gputop.snapshot import Snapshot

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise GputopError(
        "gputop export needs prometheus-client, which is not installed.", "Install it: python3 -m pip install prometheus-client"
    ) from None

COLLECT_EVERY_S = 1.0
"""Scrapes that follow sooner get the same values again."""
OLD_INTERVALS, OLD_S = 3.0, 10.0
"""A snapshot that is older than both is not served."""
PORT_MAX = 65535


class Collector:
    """What Prometheus collects: the newest snapshot of a feed, as metric families."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._doctor = Doctor()
        self._lock = threading.Lock()
        self._newest: tuple[Snapshot, tuple[Finding, ...], float] | None = None
        self._collected: tuple[float, list[Any]] | None = None
        self.failed = threading.Event()
        """Set if the feed will never deliver a snapshot."""

    def arrived(self) -> None:
        """Take what the feed has; called from its thread."""
        for snapshot in self._feed.drain():
            findings = self._doctor.observe(snapshot)
            with self._lock:
                self._newest = (snapshot, findings, time.monotonic())
        if self._newest is None and self._feed.problem() is not None:
            self.failed.set()

    def describe(self) -> list[Any]:
        """Describe nothing in advance: otherwise a registry would collect at registration."""
        return []

    def collect(self) -> list[Any]:
        """Return the metric families, at most COLLECT_EVERY_S old."""
        with self._lock:
            now = time.monotonic()
            if self._collected is None or now - self._collected[0] >= COLLECT_EVERY_S:
                self._collected = (now, list(_families(self._samples(now))))
            return self._collected[1]

    def _samples(self, now: float) -> list[Sample]:
        if self._newest is None:
            return [Sample("gputop_up", (), 0.0)]
        snapshot, findings, at = self._newest
        if now - at > max(OLD_S, OLD_INTERVALS * snapshot.interval_s):
            return [Sample("gputop_up", (), 0.0)]
        return [Sample("gputop_up", (), 1.0), *samples_of(snapshot, findings)]


def _families(samples: list[Sample]) -> Iterator[Any]:
    by_metric: dict[str, dict[tuple[str, ...], float]] = {}  # Prometheus refuses a scrape with duplicate series
    for sample in samples:
        by_metric.setdefault(sample.metric, {})[sample.labels] = sample.value
    for metric in METRICS:
        if metric.name in by_metric:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for labels, value in by_metric[metric.name].items():
                family.add_metric(labels, value)
            yield family


def serve(feed: Feed, address: str, port: int, announce: Callable[[str, int], None]) -> None:
    """Serve until interrupted; ``announce`` is called with the address and the port once scrapes are answered.

    Raises:
        UsageError: there is no such port.
        GputopError: gputop cannot listen at this address, or the feed brings nothing.
    """
    if not 0 <= port <= PORT_MAX:
        raise UsageError(f"There is no port {port}.", f"Choose one from 1 to {PORT_MAX}, or 0 for any that is free.")
    collector = Collector(feed)
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, _ = start_http_server(port, address, registry)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or "it is not an address"
        raise GputopError(
            f"gputop cannot listen at {address} port {port}: {why}.", "Choose another --port or --address."
        ) from error
    feed.start(collector.arrived)
    announce(address, server.server_port)
    collector.failed.wait()
    raise GputopError(feed.problem() or "The sampler sends no snapshot.")
