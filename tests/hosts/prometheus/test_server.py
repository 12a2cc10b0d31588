"""Debian's real Prometheus, which scrapes an exporter that is not there, one that stands in, and ``gputop export``."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gputop.cli.main import main
from gputop.hosts.fleet import Fleet
from gputop.hosts.prometheus.client import Client, QueryError, server_of
from gputop.hosts.prometheus.watch import Watch
from gputop.hosts.stream import Heard
from tests import nvml_sim
from tests.hosts.prometheus.test_prometheus import DCGM
from tests.patience import DEADLINE_S
from tests.tracking.kit import Home, home

assert home
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")


def free_port(address: str = "127.0.0.1") -> int:
    with socket.create_server((address, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


class Exporter(http.server.ThreadingHTTPServer):
    """Stands in for dcgm-exporter."""

    daemon_threads = True

    def __init__(self) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(DCGM.encode())

            def log_message(self, *arguments: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


@dataclass(frozen=True)
class Scraping:
    """A Prometheus, and what it scrapes."""

    url: str
    process: subprocess.Popen[bytes]
    exporter: Exporter
    dead: str


def until(happened: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not happened():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@pytest.fixture
def scraping(home: Home, tmp_path: Path) -> Iterator[Scraping]:
    """Start Prometheus on loopback, with an exporter, one that is not there, and ``gputop export`` on a simulated machine."""
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    environment = nvml_sim.environment(nvml_sim.h100_box(2, busy=1).write(tmp_path / "scenario"))
    export = subprocess.Popen(
        [sys.executable, "-m", "gputop", "export", "--port", "0", "-i", "200ms"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    exporter = Exporter()
    assert export.stderr is not None
    said = re.search(r":(\d+)/metrics", export.stderr.readline())
    assert said
    dead = f"127.0.0.2:{free_port('127.0.0.2')}"
    jobs = {
        "dcgm": [f"127.0.0.1:{exporter.server_port}", dead],
        "gputop": [f"localhost:{said[1]}"],
    }
    configuration = {
        "global": {"scrape_interval": "300ms", "scrape_timeout": "300ms"},
        "scrape_configs": [{"job_name": job, "static_configs": [{"targets": targets}]} for job, targets in jobs.items()],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))  # JSON is YAML
    port = free_port()
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    process = subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Scraping(f"http://127.0.0.1:{port}", process, exporter, dead)
    finally:
        exporter.stop()
        for started in (process, export):
            started.kill()
            started.communicate()


def test_prometheus_lists_its_hosts_and_scrapes_the_export(scraping: Scraping, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client(server_of(scraping.url))

    def answers(query: str) -> list[str]:
        try:
            return [str(series.value and series.value[1]) for series in client.ask(query)]
        except QueryError:
            return []

    until(lambda: len(answers("DCGM_FI_DEV_GPU_UTIL")) == 2 and len(answers("hw_gpu_utilization_ratio")) == 2)
    until(lambda: sorted(answers("up")) == ["0", "1", "1"], lambda: answers("up"))
    assert answers("gputop_up") == ["1"]
    board = json.loads((ROOT / "docs" / "grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            client.ask(re.sub(r"\$\w+", ".*", target["expr"].replace("$__rate_interval", "1m")))  # it raises where one is wrong

    assert main(["--once", "--prometheus", scraping.url]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^node1: read from Prometheus; .*; sampled .* ago$", said, re.MULTILINE)
    assert re.search(r"^0 +97% +1\.0/79\.6 GiB +N/A +N/A +NVIDIA H100$", said, re.MULTILINE)
    assert "127.0.0.2: exporter down. Its exporter does not answer Prometheus." in said
    assert "Prometheus knows GPUs, but not processes and runs." in said
    assert main(["--once", "--json", "--prometheus", scraping.url]) == 1
    found = {one["host"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {host: one["state"] for host, one in found.items()} == {
        "127.0.0.2": "target_down",
        "localhost": "live",
        "node1": "live",
    }
    own = found["localhost"]["snapshot"]["devices"]
    assert [(device["index"], device["utilization_percent"]) for device in own] == [(0, 98.0), (1, 0.0)]
    assert all(device["memory_total_bytes"] and device["power_w"] for device in own)
    assert found["localhost"]["snapshot"]["processes"] == []

    watch = Watch(server_of(scraping.url), 0.1)
    fleet = Fleet(watch.links())
    heard: dict[str, list[Heard]] = {}

    def take() -> dict[str, list[Heard]]:
        if (news := fleet.take(0.05)) is not None:
            heard.setdefault(news.status.host, []).append(news)
        return heard

    try:
        fleet.start()
        until(lambda: len(take().get("node1", ())) > 2)
        times = [one.snapshot.time for one in heard["node1"] if one.snapshot is not None]
        assert len(times) == len(set(times)), "one sample is one reading"
        scraping.exporter.stop()
        until(lambda: take()["node1"][-1].status.state == "target_down")
        so_far = len(heard["localhost"])
        # The other host goes on. On a busy machine, its own exporter may miss a scrape.
        until(lambda: len(take()["localhost"]) > so_far and heard["localhost"][-1].status.state == "live")
        scraping.process.kill()
        until(lambda: take()["localhost"][-1].status.state == "refused")
    finally:
        fleet.close()
